"""Environment variables that libraries read: plugins, passwords, proxies, a file for TLS keys."""
import os
import subprocess

from wk.keeper import DONE, FAILED


def test_no_library_is_moved_by_it(keeper, http, tmp):
    """Environment variables of the libraries have no effect: a plugin, a login file, a proxy, a file for TLS session keys and an
    invalid OpenSSL config are ignored."""
    source, mark, keys = (os.path.join(tmp, n) for n in ("canary.c", "mark", "keys"))
    with open(source, "w") as f:
        f.write('#include <fcntl.h>\n__attribute__((constructor)) static void loaded(void)\n'
                f'{{ open("{mark}", O_CREAT | O_WRONLY, 0600); }}\n')
    subprocess.run(["cc", "-shared", "-fPIC", "-o", os.path.join(tmp, "canary.so"), source], check=True)
    with open(os.path.join(tmp, "openssl.cnf"), "w") as f:
        f.write("openssl_conf = none\n[none\n")
    keeper.configure({"alert.webhook": {"url_file": keeper.secret("hook", http.url), "insecure": "yes"}})
    keeper.env.update({
        "LIBMYSQL_PLUGINS": "canary", "MARIADB_PLUGIN_DIR": tmp, "LIBMYSQL_PLUGIN_DIR": tmp,
        "LIBMYSQL_ENABLE_CLEARTEXT_PLUGIN": "1", "MYSQL_TEST_LOGIN_FILE": os.path.join(tmp, "login"),
        "MYSQL_HOME": tmp, "HOME": tmp, "MYSQL_UNIX_PORT": "/nowhere", "MYSQL_TCP_PORT": "1",
        "http_proxy": "http://127.0.0.1:1", "all_proxy": "http://127.0.0.1:1", "SSLKEYLOGFILE": keys,
        "SSL_CERT_FILE": "/nowhere", "SSL_CERT_DIR": "/nowhere", "OPENSSL_CONF": os.path.join(tmp, "openssl.cnf"),
        "CURL_SSL_BACKEND": "none", "GCONV_PATH": tmp, "LOCPATH": tmp})
    for action in ("--dump", "--check", "--test-alert"):
        done = keeper.run(action)
        assert done.rc == DONE or action == "--check", done
        assert not os.path.exists(mark), action
    keeper.start()
    keeper.stop()
    assert not os.path.exists(mark) and not os.path.exists(keys)


def test_a_password_comes_from_the_config(keeper):
    with open(keeper.password_file) as f:
        keeper.env["MYSQL_PWD"] = f.read().strip()
    keeper.configure({"mysql": {"password_file": None}})
    done = keeper.run("--dump")
    assert done.rc == FAILED and "Access denied" in done.err, done
