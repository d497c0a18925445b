/* sd_notify(3) without the library: one datagram to $NOTIFY_SOCKET. Nothing happens where it is
 * unset. */
#ifndef WK_REPORT_NOTIFY_H
#define WK_REPORT_NOTIFY_H

void notify_send(const char *text);
/* How often systemd wants WATCHDOG=1 (half of what it allows), in ms; 0: not at all. */
long notify_watchdog_ms(void);

#endif
