/* Calls of drawn.c about options and addresses. */

static void call_nonblocking(struct end *end, const struct step *of)
{
    int fd = end->fd[chosen(end, of->b)], on = of->a % 2;
    if (of->c % 2)
        set_nonblocking(fd, on);
    else
        MUST(ioctl(fd, FIONBIO, &on));
    int flags = fcntl(end->fd[chosen(end, of->d)], F_GETFL);
    report("%d c%d O_NONBLOCK %d, now %x", of->number, end->number, on, flags);
}

static void call_set_option(struct end *end, const struct step *of)
{
    int number = of->a % 16, fd = end->fd[chosen(end, of->b)];
    static const struct {
        int level, name;
        const char *text;
    } options[] = {{SOL_SOCKET, SO_RCVLOWAT, "SO_RCVLOWAT"}, {SOL_SOCKET, SO_OOBINLINE, "SO_OOBINLINE"},
        {SOL_SOCKET, SO_OOBINLINE, "SO_OOBINLINE"}, {SOL_SOCKET, SO_KEEPALIVE, "SO_KEEPALIVE"}};
    int which = of->c % 4;
    /* What arrived before counts by the mark at the time of the wait: docs/programs.md. */
    if (which == 0)
        say_events(of, 3);
    else
        number %= 2;
    int done = setsockopt(fd, options[which].level, options[which].name, &number, sizeof number);
    report("%d c%d %s %d: %s", of->number, end->number, options[which].text, number, value(done));
}

static void call_get_option(struct end *end, const struct step *of)
{
    static const struct {
        int level, name;
        const char *text;
    } options[] = {{SOL_SOCKET, SO_ERROR, "SO_ERROR"}, {SOL_SOCKET, SO_ERROR, "SO_ERROR"},
        {SOL_SOCKET, SO_ERROR, "SO_ERROR"}, {SOL_SOCKET, SO_RCVLOWAT, "SO_RCVLOWAT"},
        {SOL_SOCKET, SO_OOBINLINE, "SO_OOBINLINE"}, {SOL_SOCKET, SO_KEEPALIVE, "SO_KEEPALIVE"},
        {SOL_SOCKET, SO_TYPE, "SO_TYPE"}, {SOL_SOCKET, SO_DOMAIN, "SO_DOMAIN"},
        {SOL_SOCKET, SO_PROTOCOL, "SO_PROTOCOL"}, {SOL_SOCKET, SO_ACCEPTCONN, "SO_ACCEPTCONN"},
        {SOL_SOCKET, SO_LINGER, "SO_LINGER"}, {SOL_SOCKET, SO_RCVTIMEO, "SO_RCVTIMEO"},
        {IPPROTO_TCP, TCP_NODELAY, "TCP_NODELAY"}, {IPPROTO_TCP, TCP_CORK, "TCP_CORK"},
        {IPPROTO_TCP, TCP_INFO, "TCP_INFO"}};
    int which = of->a % 15, fd = end->fd[chosen(end, of->b)];
    unsigned char bytes[16] = {0};
    socklen_t length = options[which].name == TCP_INFO && options[which].level == IPPROTO_TCP ? 1
        : of->c % 8 == 0 ? of->c / 8 % 5 : 16;
    int done = getsockopt(fd, options[which].level, options[which].name, bytes, &length);
    int first, second;
    memcpy(&first, bytes, 4);
    memcpy(&second, bytes + 4, 4);
    report("%d c%d %s: %s of %d, %d %d", of->number, end->number, options[which].text, value(done),
        length, first, second);
}

static void call_names(struct end *end, const struct step *of)
{
    int fd = end->fd[chosen(end, of->b)];
    struct sockaddr_in address = {0};
    socklen_t length = sizeof address;
    int done = getpeername(fd, (struct sockaddr *)&address, &length);
    report("%d c%d getpeername: %s of %d, right %d", of->number, end->number, value(done), length,
        address.sin_port == end->peer_port);
    length = sizeof address;
    done = getsockname(fd, (struct sockaddr *)&address, &length);
    report("getsockname: %s of %d, right %d", value(done), length,
        address.sin_port == end->own_port);
}
