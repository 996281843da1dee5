/* Names of events, and what a set of epoll reports now. */

/* Those of poll and of epoll have the same bits. */
__attribute__((unused)) static const char *names(int events)
{
    static char text[128];
    static const struct {
        int event;
        const char *name;
    } all[] = {{POLLIN, "IN "}, {POLLPRI, "PRI "}, {POLLOUT, "OUT "}, {POLLERR, "ERR "},
        {POLLHUP, "HUP "}, {POLLRDHUP, "RDHUP "}, {POLLNVAL, "NVAL "}, {POLLRDNORM, "RDNORM "},
        {POLLRDBAND, "RDBAND "}, {POLLWRNORM, "WRNORM "}, {POLLWRBAND, "WRBAND "}};
    text[0] = 0;
    for (size_t at = 0; at < sizeof all / sizeof *all; at++)
        if (events & all[at].event)
            strcat(text, all[at].name);
    return text;
}

__attribute__((unused)) static void control(int set, int operation, int fd, uint32_t events,
    uint64_t data)
{
    struct epoll_event event = {.events = events, .data.u64 = data};
    must("epoll_ctl", epoll_ctl(set, operation, fd, &event));
}

/* One line for what is ready now. */
__attribute__((unused)) static int ready_now(const char *what, int set)
{
    struct epoll_event event = {0};
    int ready = MUST(epoll_wait(set, &event, 1, 0));
    if (ready)
        say("%s: %s data %llx", what, names(event.events), (unsigned long long)event.data.u64);
    else
        say("%s: nothing", what);
    return ready;
}
