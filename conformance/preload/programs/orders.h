/* A server that has its client do one thing after the other, by a second connection. */

/* Does what the server asks for: sends a byte, or an urgent one (in upper case), ends the stream
 * ('e'), reads a byte ('x'), closes ('c'), or resets ('r'). */
__attribute__((unused)) static void obedient_client(int port)
{
    int fd = greet(port), orders = greet(port);
    struct linger none = {1, 0};
    char order;
    signal(SIGPIPE, SIG_IGN);
    while (read(orders, &order, 1) == 1) {
        if (order == 'e') {
            MUST(shutdown(fd, SHUT_WR));
        } else if (order == 'x') {
            char byte;
            outcome("read", read(fd, &byte, 1));
        } else if (order == 'c' || order == 'r') {
            if (order == 'r')
                MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none));
            MUST(close(fd));
            fd = -1;
        } else {
            bool is_urgent = order >= 'A' && order <= 'Z';
            MUST(send(fd, &order, 1, is_urgent ? MSG_OOB : 0));
        }
        signal_peer(orders);
    }
    if (fd >= 0)
        close(fd);
    MUST(close(orders));
}

static int ordered, orders;

__attribute__((unused)) static void begin_orders(int listener)
{
    signal(SIGPIPE, SIG_IGN);
    ordered = welcome(listener);
    orders = welcome(listener);
}

/* Has the client do something, and waits until it is done, and these events are there. */
__attribute__((unused)) static void order(char what, int events)
{
    MUST(write(orders, &what, 1));
    await_peer(orders);
    while ((await(ordered, events | POLLOUT) & events) != events)
        sched_yield();
}

/* Waits until so many bytes can be read. */
__attribute__((unused)) static void await_unread(int count)
{
    for (int unread = -1; unread != count; sched_yield())
        MUST(ioctl(ordered, FIONREAD, &unread));
}

__attribute__((unused)) static void end_orders(void)
{
    MUST(close(orders));
    MUST(close(ordered));
}
