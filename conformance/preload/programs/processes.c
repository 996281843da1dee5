/* Other processes that have the connection: children, and programs that are executed. */
#include "case.h"
#include <spawn.h>
#include <sys/resource.h>

extern char **environ;

/* --- fork */

/* As inetd: the child serves, the parent closes. */
static void child_serves_server(int listener)
{
    for (int connection = 0; connection < 3; connection++) {
        int fd = take(listener);
        pid_t child = branch();
        if (child == 0) {
            MUST(close(listener));
            echo(fd, fd);
            _exit(0);
        }
        MUST(close(fd));
        await_child("the child", child);
    }
}

static void three_echoes_client(int port)
{
    for (int connection = 0; connection < 3; connection++)
        echo_client(port);
}

/* As nginx, postgres and apache: workers accept from a listener they inherited. */
static void workers_server(int listener)
{
    for (int worker = 0; worker < 3; worker++)
        if (branch() == 0) {
            int fd = take(listener);
            echo(fd, fd);
            MUST(close(fd));
            _exit(0);
        }
    MUST(close(listener));
    for (int worker = 0; worker < 3; worker++) {
        int status;
        MUST(wait(&status));
        say("a worker ended with %d", status);
    }
}

/* A child that uses nothing of the parent's must not disturb it by ending. */
static void bystander_server(int listener)
{
    int fd = take(listener);
    await_peer(fd);
    for (int round = 0; round < 3; round++) {
        pid_t child = branch();
        if (child == 0) {
            if (round == 1)
                close(fd);
            if (round == 2)
                exit(0);
            _exit(0);
        }
        MUST(waitpid(child, NULL, 0));
        signal_peer(fd);
        await_peer(fd);
    }
    expect_end(fd);
}

static void signal_in_turns(int port, int rounds)
{
    int fd = dial(port);
    signal_peer(fd);
    for (int round = 0; round < rounds; round++) {
        await_peer(fd);
        signal_peer(fd);
    }
    MUST(close(fd));
}

static void bystander_client(int port)
{
    signal_in_turns(port, 3);
}

/* The child has connections of its own, and its parent others. */
static void forked_client(int port)
{
    pid_t child = branch();
    if (child == 0) {
        int fd = dial(port);
        send_pattern(fd, 5000);
        unsigned char bytes[5000];
        read_all(fd, bytes, sizeof bytes);
        judge(bytes, 0, sizeof bytes);
        MUST(close(fd));
        _exit(0);
    }
    await_child("the child", child);
    echo_client(port);
}

/* A child that was forked while a connection was made closes it, and lives on: its copy is not to
 * keep the end of the stream from the server. The server takes the second connection for TCP, after
 * it was announced to a server that is known by then. */
static void forked_undecided_server(int listener)
{
    int first = welcome(listener), fd = take(listener), ends[2];
    MUST(pipe(ends));
    await_peer(first);
    ssize_t length;
    char bytes[64];
    while ((length = splice(fd, NULL, ends[1], NULL, sizeof bytes, 0)) > 0)
        say("%.*s", (int)read(ends[0], bytes, length), bytes);
    outcome("splice", length);
    signal_peer(first);
    expect_end(first);
    MUST(close(fd));
}

static void forked_undecided_client(int port)
{
    int first = greet(port);
    int fd = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    struct sockaddr_in address = loopback(port);
    int begun = connect(fd, (struct sockaddr *)&address, sizeof address);
    if (begun < 0 && errno != EINPROGRESS)
        must("connect", begun);
    pid_t child = branch();
    if (child == 0) {
        MUST(close(first));
        MUST(close(fd));
        stop();
        _exit(0);
    }
    await_stop(child);
    signal_peer(first);
    write_all(fd, "bytes", 5);
    MUST(close(fd));
    await_peer(first);
    MUST(close(first));
    MUST(kill(child, SIGCONT));
    await_child("the child", child);
}

static void two_echoes_server(int listener)
{
    for (int connection = 0; connection < 2; connection++) {
        int fd = take(listener);
        echo(fd, fd);
        MUST(close(fd));
    }
}

/* As vsftpd for its sessions: a process that may make no thread. */
static pid_t branch_without_threads(void)
{
    pid_t child = branch();
    if (child == 0) {
        struct rlimit none = {0, 0};
        /* The limit is not root's. */
        if (geteuid() == 0)
            MUST(setuid(54321));
        MUST(setrlimit(RLIMIT_NPROC, &none));
    }
    return child;
}

/* It speaks first, once it may write. */
static void threadless_server(int listener)
{
    for (int round = 0; round < 2; round++) {
        int fd = take(listener);
        pid_t child = branch_without_threads();
        if (child == 0) {
            if (round == 0) {
                struct pollfd polled = {.fd = fd, .events = POLLOUT};
                say("%d is writable", MUST(poll(&polled, 1, LIMIT * 1000)));
            } else {
                int set = MUST(epoll_create1(0));
                struct epoll_event event = {.events = EPOLLOUT};
                MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
                say("%d is writable", MUST(epoll_wait(set, &event, 1, LIMIT * 1000)));
            }
            signal_peer(fd);
            echo(fd, fd);
            _exit(0);
        }
        MUST(close(fd));
        await_child("the child", child);
    }
}

static void threadless_server_client(int port)
{
    for (int round = 0; round < 2; round++) {
        int fd = dial(port);
        await_peer(fd);
        unsigned char bytes[5000];
        send_pattern(fd, sizeof bytes);
        MUST(shutdown(fd, SHUT_WR));
        read_all(fd, bytes, sizeof bytes);
        judge(bytes, 0, sizeof bytes);
        MUST(close(fd));
    }
}

static void threadless_client(int port)
{
    pid_t child = branch_without_threads();
    if (child == 0) {
        echo_client(port);
        _exit(0);
    }
    await_child("the child", child);
}

/* As vsftpd, which makes processes by the system call. */
static pid_t copied(int round)
{
    switch (round) {
    case 0:
        return MUST(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    case 1:
        return MUST(syscall(SYS_fork));
    default:
        return MUST(_Fork());
    }
}

/* What the child closes is free for others. */
static void cloned(int listener, int round)
{
    int fd = take(listener);
    pid_t child = copied(round);
    if (child == 0) {
        alarm(LIMIT);
        int copy = MUST(dup2(fd, fd + 9)), pair[2];
        MUST(close(fd));
        MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
        say("the number is free: %d", pair[0] == fd);
        write_all(pair[0], "pair", 4);
        char bytes[4];
        read_all(pair[1], bytes, 4);
        say("%.4s", bytes);
        echo(copy, copy);
        _exit(0);
    }
    MUST(close(fd));
    await_child("the child", child);
}

static void cloned_server(int listener)
{
    for (int round = 0; round < 3; round++)
        cloned(listener, round);
}

/* --- exec */

/* As inetd for programs that know nothing of sockets. */
static void exec_server(int listener)
{
    int fd = take(listener);
    pid_t child = branch();
    if (child == 0) {
        dup2(fd, STDIN_FILENO);
        dup2(fd, STDOUT_FILENO);
        execl("/bin/cat", "cat", NULL);
        _exit(127);
    }
    MUST(close(fd));
    await_child("cat", child);
}

static void spawn_server(int listener)
{
    int fd = take(listener);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
    pid_t child;
    char *arguments[] = {"cat", NULL};
    int error = posix_spawnp(&child, "cat", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    say("posix_spawnp = %d", error);
    MUST(close(fd));
    await_child("cat", child);
}

/* As exec and spawn, in children that have the memory of their parent until then. */
static pid_t vfork_to(int fd, const char *command)
{
    pid_t child = vfork();
    if (child == 0) {
        dup2(fd, STDIN_FILENO);
        dup2(fd, STDOUT_FILENO);
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(127);
    }
    return must("vfork", child);
}

static pid_t spawn_to(int fd, char *command)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
    pid_t child;
    char *arguments[] = {"sh", "-c", command, NULL};
    say("posix_spawn = %d", posix_spawn(&child, "/bin/sh", &actions, NULL, arguments, environ));
    posix_spawn_file_actions_destroy(&actions);
    return child;
}

static void vfork_exec_server(int listener)
{
    int fd = take(listener);
    pid_t child = vfork_to(fd, "exec cat");
    MUST(close(fd));
    await_child("cat", child);
}

/* A program that is executed does not expect that its input does not block. */
static void exec_blocking_server(int listener)
{
    for (int round = 0; round < 3; round++) {
        int fd = MUST(accept4(listener, NULL, NULL, SOCK_NONBLOCK));
        set_nonblocking(fd, false);
        pid_t child = round == 0 ? branch() : 1;
        if (child == 0) {
            dup2(fd, STDIN_FILENO);
            dup2(fd, STDOUT_FILENO);
            execl("/bin/cat", "cat", NULL);
            _exit(127);
        }
        if (round == 1)
            child = vfork_to(fd, "exec cat");
        if (round == 2)
            child = spawn_to(fd, "exec cat");
        MUST(close(fd));
        await_child("cat", child);
    }
}

/* The program reads a line, and its parent goes on behind it. */
static void go_on_behind(int fd, pid_t child)
{
    await_child("the shell", child);
    echo(fd, fd);
    MUST(close(fd));
}

#define READ_LINE "read line; echo $line"

/* Calls that execute a program by another name than exec. */
static void by_number_server(int listener)
{
    char *arguments[] = {"cat", NULL};
    for (int round = 0; round < 3; round++) {
        int fd = take(listener);
        pid_t child = branch();
        if (child == 0) {
            MUST(dup2(fd, STDIN_FILENO));
            MUST(dup2(fd, STDOUT_FILENO));
            if (round == 0)
                syscall(SYS_execve, "/bin/cat", arguments, environ);
            if (round == 1)
                syscall(SYS_execveat, AT_FDCWD, "/bin/cat", arguments, environ, 0);
            if (round == 2)
                execveat(AT_FDCWD, "/bin/cat", arguments, environ, 0);
            _exit(127);
        }
        MUST(close(fd));
        await_child("cat", child);
    }
}

static void exec_and_go_on_server(int listener)
{
    int fd = take(listener);
    go_on_behind(fd, vfork_to(fd, READ_LINE));
    fd = take(listener);
    go_on_behind(fd, spawn_to(fd, READ_LINE));
    fd = take(listener);
    int input = MUST(dup(STDIN_FILENO));
    MUST(dup2(fd, STDIN_FILENO));
    say("system = %d", system("read line; echo $line >&0"));
    MUST(dup2(input, STDIN_FILENO));
    echo(fd, fd);
    MUST(close(fd));
    /* A set that the parent waits at. */
    fd = take(listener);
    pid_t child = vfork_to(fd, READ_LINE);
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 7};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    await_child("the shell", child);
    say("%d is ready", MUST(epoll_wait(set, &event, 1, LIMIT * 1000)));
    MUST(close(set));
    echo(fd, fd);
    MUST(close(fd));
}

static void exec_and_go_on_client(int port)
{
    for (int round = 0; round < 4; round++) {
        int fd = dial(port);
        char line[6] = {0};
        write_all(fd, "hello\n", 6);
        read_all(fd, line, 6);
        say("%.5s", line);
        expect_echo(fd);
    }
}

/* Programs that are executed beside a connection that is not used yet leave it to their parent. */
static void vforked_beside_server(int listener)
{
    int fd = take(listener);
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", NULL);
        _exit(127);
    }
    await_child("true", must("vfork", child));
    char *arguments[] = {"true", NULL};
    say("posix_spawn = %d", posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ));
    await_child("true", child);
    say("system = %d", system("true"));
    echo(fd, fd);
    MUST(close(fd));
}

/* A child that executes a program has the connection, too, and leaves it to its parent. */
static void executed_beside_server(int listener)
{
    int fd = take(listener);
    pid_t child = branch();
    if (child == 0) {
        execl("/bin/true", "true", NULL);
        _exit(127);
    }
    await_child("true", child);
    echo(fd, fd);
    MUST(close(fd));
}

/* Programs that are started beside a connection leave it alone. */
static void started_beside_server(int listener)
{
    int fd = take(listener);
    await_peer(fd);
    say("system = %d", system("exit 3"));
    signal_peer(fd);
    await_peer(fd);
    FILE *pipe = popen("echo from the shell", "r");
    char line[64] = "";
    say("%s", fgets(line, sizeof line, pipe) ? strtok(line, "\n") : "no line");
    say("pclose = %d", pclose(pipe));
    pid_t child;
    char *arguments[] = {"true", NULL};
    say("posix_spawn = %d", posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ));
    MUST(waitpid(child, NULL, 0));
    child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", NULL);
        _exit(127);
    }
    int status;
    MUST(waitpid(child, &status, 0));
    say("vfork and exec: %d", status);
    signal_peer(fd);
    expect_end(fd);
}

static void started_beside_client(int port)
{
    int fd = dial(port);
    signal_peer(fd);
    await_peer(fd);
    signal_peer(fd);
    await_peer(fd);
    MUST(close(fd));
}

/* A child of vfork has the memory of its parent and descriptors of its own: what it does to those
 * is not done to its parent's. */
static void change_own(int round, int fd, int copy, int set, int null)
{
    switch (round) {
    case 0:
        close(fd);
        close(copy);
        close(set);
        break;
    case 1:
        dup2(null, fd);
        dup2(null, set);
        dup3(null, copy, O_CLOEXEC);
        break;
    case 2:
        close_range(fd, ~0U, 0);
        break;
    case 3:
        closefrom(fd);
        break;
    case 4:
        dup2(fd, fd + 20);
        fcntl(fd, F_DUPFD, fd + 30);
        break;
    case 5:
        syscall(SYS_close, fd);
        syscall(SYS_close_range, copy, ~0U, 0);
        break;
    }
}

static void vforked_server(int listener)
{
    int fd = take(listener);
    await_peer(fd);
    int copy = MUST(dup(fd)), set = MUST(epoll_create1(0)), null = MUST(open("/dev/null", O_RDWR));
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 7};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    for (int round = 0; round < 12; round++) {
        pid_t child = vfork();
        if (child == 0) {
            change_own(round / 2, fd, copy, set, null);
            if (round % 2 == 0)
                execl("/bin/true", "true", NULL);
            _exit(0);
        }
        await_child("the child", must("vfork", child));
        signal_peer(copy);
        say("%d is ready", MUST(epoll_wait(set, &event, 1, LIMIT * 1000)));
        await_peer(fd);
    }
    outcome("read of a duplicate in the child", read(fd + 20, &(char){0}, 1));
    outcome("read of another one", read(fd + 30, &(char){0}, 1));
    MUST(close(copy));
    expect_end(fd);
}

static void vforked_client(int port)
{
    signal_in_turns(port, 12);
}

/* --- a child of vfork connects, before its parent does: its threads would end with it */

static void vforked_connects_server(int listener)
{
    expect_end(take(listener));
    for (int round = 0; round < 2; round++) {
        int fd = welcome(listener);
        signal_peer(fd);
        expect_end(fd);
    }
}

static void vforked_connects_client(int port)
{
    struct sockaddr_in address = loopback(port);
    pid_t child = vfork();
    if (child == 0) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        _exit(connect(fd, (struct sockaddr *)&address, sizeof address) < 0 && errno != EINPROGRESS);
    }
    await_child("the child", must("vfork", child));
    for (int round = 0; round < 2; round++) {
        int fd = greet(port);
        await_peer(fd);
        MUST(close(fd));
    }
}

const struct test_case cases[] = {
    {"child-serves", child_serves_server, three_echoes_client},
    {"workers", workers_server, three_echoes_client},
    {"bystander", bystander_server, bystander_client},
    {"forked-client", two_echoes_server, forked_client},
    {"forked-undecided", forked_undecided_server, forked_undecided_client},
    {"cloned", cloned_server, three_echoes_client},
    {"threadless-server", threadless_server, threadless_server_client},
    {"threadless-client", one_echo_server, threadless_client},
    {"exec", exec_server, echo_client},
    {"spawn", spawn_server, echo_client},
    {"vfork-exec", vfork_exec_server, echo_client},
    {"exec-blocking", exec_blocking_server, three_echoes_client},
    {"by-number", by_number_server, three_echoes_client},
    {"exec-and-go-on", exec_and_go_on_server, exec_and_go_on_client},
    {"vforked-beside", vforked_beside_server, echo_client},
    {"executed-beside", executed_beside_server, echo_client},
    {"started-beside", started_beside_server, started_beside_client},
    {"vforked", vforked_server, vforked_client},
    {"vforked-connects", vforked_connects_server, vforked_connects_client},
    {NULL, NULL, NULL},
};
