/* sd_notify(3) without the library: one datagram to $NOTIFY_SOCKET. Nothing happens if unset. */
#ifndef WK_BASE_SYSTEMD_H
#define WK_BASE_SYSTEMD_H

void systemd_notify(const char *text);
/* Returns the interval for WATCHDOG=1 in ms, half of what systemd allows; 0: no watchdog. */
long systemd_watchdog_ms(void);

#endif
