/* Threads that are cancelled, and handlers of signals that come in the midst of a call. */
#include "case.h"
#include <dirent.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/time.h>

/* --- threads that are cancelled */

struct waiter {
    pthread_t thread;
    pid_t id;
    int fd;
    bool is_cleaned;
};

static void cleaned(void *of)
{
    ((struct waiter *)of)->is_cleaned = true;
}

static void *reads(void *of)
{
    struct waiter *waiter = of;
    pthread_cleanup_push(cleaned, waiter);
    __atomic_store_n(&waiter->id, gettid(), __ATOMIC_RELEASE);
    outcome("read", read(waiter->fd, &(char){0}, 1));
    pthread_cleanup_pop(0);
    return NULL;
}

static void *receives_vectors(void *of)
{
    struct waiter *waiter = of;
    char byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    pthread_cleanup_push(cleaned, waiter);
    __atomic_store_n(&waiter->id, gettid(), __ATOMIC_RELEASE);
    outcome("recvmsg", recvmsg(waiter->fd, &message, 0));
    pthread_cleanup_pop(0);
    return NULL;
}

static void *writes(void *of)
{
    struct waiter *waiter = of;
    static char much[1 << 16];
    pthread_cleanup_push(cleaned, waiter);
    __atomic_store_n(&waiter->id, gettid(), __ATOMIC_RELEASE);
    while (write(waiter->fd, much, sizeof much) > 0)
        ;
    pthread_cleanup_pop(0);
    return NULL;
}

static void *polls(void *of)
{
    struct waiter *waiter = of;
    struct pollfd one = {.fd = waiter->fd, .events = POLLIN};
    pthread_cleanup_push(cleaned, waiter);
    __atomic_store_n(&waiter->id, gettid(), __ATOMIC_RELEASE);
    outcome("poll", poll(&one, 1, -1));
    pthread_cleanup_pop(0);
    return NULL;
}

static void *selects(void *of)
{
    struct waiter *waiter = of;
    fd_set set;
    FD_ZERO(&set);
    FD_SET(waiter->fd, &set);
    pthread_cleanup_push(cleaned, waiter);
    __atomic_store_n(&waiter->id, gettid(), __ATOMIC_RELEASE);
    outcome("select", select(waiter->fd + 1, &set, NULL, NULL, NULL));
    pthread_cleanup_pop(0);
    return NULL;
}

static void *waits_in_set(void *of)
{
    struct waiter *waiter = of;
    struct epoll_event event = {.events = EPOLLIN};
    int set = MUST(epoll_create1(0));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, waiter->fd, &event));
    pthread_cleanup_push(cleaned, waiter);
    __atomic_store_n(&waiter->id, gettid(), __ATOMIC_RELEASE);
    outcome("epoll_wait", epoll_wait(set, &event, 1, -1));
    pthread_cleanup_pop(0);
    return NULL;
}

static void begin(struct waiter *waiter, void *(*routine)(void *), int fd)
{
    *waiter = (struct waiter){.fd = fd};
    must("pthread_create", -pthread_create(&waiter->thread, NULL, routine, waiter));
    pid_t id;
    while ((id = __atomic_load_n(&waiter->id, __ATOMIC_ACQUIRE)) == 0)
        sched_yield();
    await_sleep(id);
}

static void cancel(struct waiter *waiter, const char *what)
{
    void *result;
    must("pthread_cancel", -pthread_cancel(waiter->thread));
    must("pthread_join", -pthread_join(waiter->thread, &result));
    say("%s: cancelled %d, cleaned up %d", what, result == PTHREAD_CANCELED, waiter->is_cleaned);
}

/* The connection goes on, and other threads that wait for it. */
static void cancelled_server(int listener)
{
    static const struct {
        const char *name;
        void *(*routine)(void *);
    } calls[] = {
        {"read", reads},
        {"recvmsg", receives_vectors},
        {"poll", polls},
        {"select", selects},
        {"epoll_wait", waits_in_set},
    };
    int fd = welcome(listener), other = welcome(listener), full = welcome(listener);
    struct waiter bystander, waiter;
    begin(&bystander, reads, other);
    for (int round = 0; round < 3; round++)
        for (size_t at = 0; at < sizeof calls / sizeof *calls; at++) {
            begin(&waiter, calls[at].routine, fd);
            cancel(&waiter, calls[at].name);
            signal_peer(fd);
            await_peer(fd);
        }
    begin(&waiter, writes, full);
    cancel(&waiter, "write");
    signal_peer(other);
    must("pthread_join", -pthread_join(bystander.thread, NULL));
    MUST(close(full));
    MUST(close(other));
    MUST(close(fd));
}

static void cancelled_client(int port)
{
    int fd = greet(port), other = greet(port), full = greet(port);
    for (int round = 0; round < 15; round++) {
        await_peer(fd);
        signal_peer(fd);
    }
    await_peer(other);
    signal_peer(other);
    expect_end(fd);
    expect_end(other);
    MUST(close(full));
}

/* A request that waits is answered by the next call that may wait, also if that would not; one
 * that is disabled waits on. */
static void *answers_late(void *of)
{
    struct waiter *waiter = of;
    char byte = 0;
    int ignored;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ignored);
    pthread_cleanup_push(cleaned, waiter);
    __atomic_store_n(&waiter->id, gettid(), __ATOMIC_RELEASE);
    outcome("read with cancelling disabled", read(waiter->fd, &byte, 1));
    outcome("write with cancelling disabled", write(waiter->fd, "!", 1));
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &ignored);
    write(waiter->fd, "never", 5);
    say("a thread goes on that is to be cancelled");
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancelled_later_server(int listener)
{
    int fd = take(listener);
    await_peer(fd);
    struct waiter waiter;
    begin(&waiter, answers_late, fd);
    must("pthread_cancel", -pthread_cancel(waiter.thread));
    signal_peer(fd);
    void *result;
    must("pthread_join", -pthread_join(waiter.thread, &result));
    say("cancelled %d, cleaned up %d", result == PTHREAD_CANCELED, waiter.is_cleaned);
    MUST(close(fd));
}

static void cancelled_later_client(int port)
{
    int fd = dial(port);
    signal_peer(fd);
    await_peer(fd);
    signal_peer(fd);
    await_peer(fd);
    expect_end(fd);
}

/* --- handlers of signals that use a connection */

static int used;
static volatile sig_atomic_t refused, worked;

static void uses(int signal)
{
    int error = errno;
    /* A handler must not wait. */
    long done = send(used, "h", 1, MSG_DONTWAIT);
    if (done == 1)
        worked++;
    else if (errno == EAGAIN)
        refused++;
    else
        worked = -100000;
    errno = error;
}

/* The handler has come while the thread waits: its write arrives. */
static void handler_while_waiting_server(int listener)
{
    int fd = welcome(listener), way = welcome(listener);
    used = way;
    struct sigaction action = {.sa_handler = uses, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGUSR1, &action, NULL));
    struct waiter waiter;
    begin(&waiter, reads, fd);
    pthread_kill(waiter.thread, SIGUSR1);
    must("pthread_join", -pthread_join(waiter.thread, NULL));
    say("the handler has written %d", (int)worked);
    MUST(close(fd));
    MUST(close(way));
}

static void handler_while_waiting_client(int port)
{
    int fd = greet(port), way = greet(port);
    char byte;
    say("%zu byte of the handler", read_all(way, &byte, 1));
    signal_peer(fd);
    expect_end(way);
    expect_end(fd);
}

/* The handler comes at any moment: nothing is lost, and nothing waits for ever. */
static void handler_at_any_moment_server(int listener)
{
    int fd = welcome(listener), way = welcome(listener);
    used = way;
    struct sigaction action = {.sa_handler = uses, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGALRM, &action, NULL));
    struct itimerval time = {{0, 97}, {0, 97}};
    MUST(setitimer(ITIMER_REAL, &time, NULL));
    char byte;
    for (int round = 0; round < 20000; round++) {
        while (read(fd, &byte, 1) < 0 && errno == EINTR)
            ;
        while (write(fd, &byte, 1) < 0 && errno == EINTR)
            ;
    }
    time = (struct itimerval){{0, 0}, {0, 0}};
    MUST(setitimer(ITIMER_REAL, &time, NULL));
    signal(SIGALRM, SIG_DFL);
    alarm(LIMIT);
    say("handlers have written: %d", worked > 0);
    int count = worked;
    write_all(fd, &count, sizeof count);
    MUST(shutdown(way, SHUT_WR));
    expect_end(fd);
    MUST(close(way));
}

static void *drains(void *of)
{
    static int total;
    char bytes[4096];
    ssize_t done;
    while ((done = read(*(int *)of, bytes, sizeof bytes)) > 0)
        total += done;
    return &total;
}

static void handler_at_any_moment_client(int port)
{
    int fd = greet(port), way = greet(port), count;
    pthread_t thread;
    must("pthread_create", -pthread_create(&thread, NULL, drains, &way));
    char byte = 'b';
    for (int round = 0; round < 20000; round++) {
        write_all(fd, &byte, 1);
        if (read_all(fd, &byte, 1) != 1 || byte != 'b') {
            say("a wrong byte");
            exit(1);
        }
    }
    read_all(fd, &count, sizeof count);
    void *total;
    must("pthread_join", -pthread_join(thread, &total));
    say("what handlers have written has arrived: %d", *(int *)total == count);
    MUST(close(fd));
    MUST(close(way));
}

/* --- a handler that jumps out of a wait, as iperf3's does; the process ends as usual */

static sigjmp_buf place;

static void jumps(int signal)
{
    (void)signal;
    has_left_memory = true;
    siglongjmp(place, 1);
}

static void handler_jumps_server(int listener)
{
    int fd = welcome(listener);
    struct sigaction action = {.sa_handler = jumps};
    MUST(sigaction(SIGALRM, &action, NULL));
    if (sigsetjmp(place, 1) == 0) {
        struct itimerval soon = {.it_value.tv_usec = 50000};
        MUST(setitimer(ITIMER_REAL, &soon, NULL));
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        say("poll = %d", poll(&polled, 1, 10000));
    } else {
        say("the handler has jumped");
    }
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    say("poll = %d", poll(&polled, 1, 0));
    signal_peer(fd);
}

static void handler_jumps_client(int port)
{
    int fd = dial(port);
    signal_peer(fd);
    await_peer(fd);
    expect_end(fd);
}

/* --- a handler that jumps out of a read, which is the usual limit of time for it, and the program
 * reads again */

static void read_is_left_server(int listener)
{
    int fd = welcome(listener);
    struct sigaction action = {.sa_handler = jumps};
    for (volatile int at = 0; at < 5; at++) {
        action.sa_handler = jumps;
        MUST(sigaction(SIGALRM, &action, NULL));
        if (sigsetjmp(place, 1) == 0) {
            struct itimerval soon = {.it_value.tv_usec = 20000};
            MUST(setitimer(ITIMER_REAL, &soon, NULL));
            char byte;
            say("read = %d", (int)read(fd, &byte, 1));
        } else {
            say("the handler has jumped");
        }
        action.sa_handler = SIG_DFL;
        MUST(sigaction(SIGALRM, &action, NULL));
        alarm(LIMIT);
        signal_peer(fd);
        await_peer(fd);
        say("and read again");
    }
}

static void read_is_left_client(int port)
{
    int fd = dial(port);
    signal_peer(fd);
    for (int at = 0; at < 5; at++) {
        await_peer(fd);
        /* The other side sleeps in its read by now, or not. */
        usleep(at * 10000);
        signal_peer(fd);
    }
    expect_end(fd);
}

/* --- children are forked while another thread connects, and use what they have inherited */

#define CONNECTIONS 60

static void forks_beside_server(int listener)
{
    for (int at = 0; at < CONNECTIONS; at++) {
        int fd = take(listener);
        await_peer(fd);
        signal_peer(fd);
        MUST(close(fd));
    }
    say("%d connections", CONNECTIONS);
}

static volatile bool all_connected;

static void *connects(void *port)
{
    for (int at = 0; at < CONNECTIONS; at++) {
        int fd = dial(*(int *)port);
        signal_peer(fd);
        await_peer(fd);
        MUST(close(fd));
    }
    all_connected = true;
    return NULL;
}

static void forks_beside_client(int port)
{
    pthread_t thread;
    must("pthread_create", -pthread_create(&thread, NULL, connects, &port));
    int failed = 0;
    while (!all_connected) {
        pid_t child = must("fork", fork());
        if (child == 0) {
            /* One that waits for ever is ended. */
            alarm(10);
            char byte;
            for (int fd = 3; fd < 64; fd++) {
                recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
                close(fd);
            }
            _exit(0);
        }
        int status;
        MUST(waitpid(child, &status, 0));
        failed += status != 0;
    }
    must("pthread_join", -pthread_join(thread, NULL));
    say("%d children have failed", failed);
}

/* --- a process that meets no peer has the threads that it makes itself, and no other one */

static int threads_of_process(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* A function of the C library, whatever stands before it. */
static void *of_libc(const char *name)
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), *found = NULL;
    if (libc != NULL)
        found = dlsym(libc, name);
    if (found == NULL) {
        say("the C library has no %s", name);
        exit(1);
    }
    return found;
}

/* Listens at a port of its own, by these functions. */
static int listen_by(int (*make)(int, int, int), int (*listen_at)(int, int), int *port)
{
    int listener = must("socket", make(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    MUST(bind(listener, (struct sockaddr *)&address, length));
    must("listen", listen_at(listener, 4));
    MUST(getsockname(listener, (struct sockaddr *)&address, &length));
    *port = ntohs(address.sin_port);
    return listener;
}

static void exchange(int one, int other)
{
    signal_peer(one);
    await_peer(other);
    signal_peer(other);
    await_peer(one);
    MUST(close(one));
    MUST(close(other));
    say("threads: %d", threads_of_process());
}

static void no_peer_server(int listener)
{
    say("threads: %d", threads_of_process());
    int port, own = listen_by(socket, listen, &port);
    int (*make)(int, int, int) = of_libc("socket");
    int (*connect_to)(int, const struct sockaddr *, socklen_t) = of_libc("connect");
    for (int round = 0; round < 2; round++) {
        struct sockaddr_in address = loopback(port);
        int fd = must("socket", make(AF_INET, SOCK_STREAM, 0));
        must("connect", connect_to(fd, (struct sockaddr *)&address, sizeof address));
        exchange(fd, take(own));
    }
    int fd = welcome(listener);
    signal_peer(fd);
    expect_end(fd);
}

static void no_peer_client(int port)
{
    int other, listener = listen_by(of_libc("socket"), of_libc("listen"), &other);
    int (*accept_from)(int, struct sockaddr *, socklen_t *) = of_libc("accept");
    int dialled = dial(other);
    exchange(dialled, must("accept", accept_from(listener, NULL, NULL)));
    int fd = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    struct sockaddr_in address = loopback(other);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0 && errno != EINPROGRESS)
        say("connect: %s", strerrorname_np(errno));
    await(fd, POLLOUT);
    exchange(fd, must("accept", accept_from(listener, NULL, NULL)));
    fd = greet(port);
    await_peer(fd);
    MUST(close(fd));
}

const struct test_case cases[] = {
    {"cancelled", cancelled_server, cancelled_client},
    {"cancelled-later", cancelled_later_server, cancelled_later_client},
    {"handler-while-waiting", handler_while_waiting_server, handler_while_waiting_client},
    {"handler-at-any-moment", handler_at_any_moment_server, handler_at_any_moment_client},
    {"handler-jumps", handler_jumps_server, handler_jumps_client},
    {"read-is-left", read_is_left_server, read_is_left_client},
    {"forks-beside", forks_beside_server, forks_beside_client},
    {"no-peer", no_peer_server, no_peer_client},
    {NULL, NULL, NULL},
};
