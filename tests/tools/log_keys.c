/* A plugin that gives a MariaDB server one key, so that it can encrypt its binary log. The server
 * itself encrypts. Debian's server package has neither such a plugin nor headers for one, so the
 * structures that the server looks for are declared here. */
#include <stddef.h>
#include <string.h>

enum { ENCRYPTION = 9, LICENSE_BSD = 2, STABLE = 5 };
enum { PLUGINS = 0x010c, KEYS = 0x0300 }; /* versions of the two interfaces */
enum { NO_KEY = ~0, TOO_SMALL = 100 };
#define KEY_ID 1u /* the binary log's */

struct keys {
    int interface;
    unsigned (*latest)(unsigned id);
    /* `key` NULL: only its length is requested. Returns 0, or an error code. */
    unsigned (*get)(unsigned id, unsigned version, unsigned char *key, unsigned *len);
    void (*cipher[5])(void); /* NULL: the server's own */
};

struct plugin {
    int type;
    void *info;
    const char *name, *author, *about;
    int license;
    int (*begin)(void *), (*end)(void *);
    unsigned version;
    void *status, *variables;
    const char *version_text;
    unsigned maturity;
};

static unsigned latest(unsigned id)
{
    return id == KEY_ID ? 1 : (unsigned)NO_KEY;
}

static unsigned get(unsigned id, unsigned version, unsigned char *key, unsigned *len)
{
    static const char fixed[] = "not a secret ...";
    unsigned room = *len;
    if (id != KEY_ID || version != 1)
        return (unsigned)NO_KEY;
    *len = sizeof fixed - 1;
    if (!key)
        return 0;
    if (room < *len)
        return TOO_SMALL;
    memcpy(key, fixed, *len);
    return 0;
}

static struct keys keys = {.interface = KEYS, .latest = latest, .get = get};

extern int _maria_plugin_interface_version_, _maria_sizeof_struct_st_plugin_;
extern struct plugin _maria_plugin_declarations_[];
int _maria_plugin_interface_version_ = PLUGINS;
int _maria_sizeof_struct_st_plugin_ = sizeof(struct plugin);
struct plugin _maria_plugin_declarations_[] = {
    {.type = ENCRYPTION,
     .info = &keys,
     .name = "log_keys",
     .author = "worldkeeper's tests",
     .about = "One key for the binary log",
     .license = LICENSE_BSD,
     .version = 0x0100,
     .version_text = "1",
     .maturity = STABLE},
    {0},
};
