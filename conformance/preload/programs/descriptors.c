/* What happens to the descriptor: duplicates, closing, fork, exec, passing on. */
#include "case.h"
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>

extern char **environ;

/* Echoes what comes until the stream ends. */
static void echo(int from, int to)
{
    char bytes[4096];
    ssize_t length;
    while ((length = must("read", read(from, bytes, sizeof bytes))) > 0)
        write_all(to, bytes, length);
}

static void expect_echo(int fd)
{
    send_pattern(fd, 5000);
    receive_pattern(fd, 5000);
    MUST(shutdown(fd, SHUT_WR));
    expect_end(fd);
}

static void echo_client(int port)
{
    expect_echo(dial(port));
}

/* --- duplicates: the connection lives as long as one of them */

static void duplicates_server(int listener)
{
    int fd = take(listener);
    int copy = MUST(dup(fd));
    MUST(close(fd));
    await_peer(copy);
    int second = MUST(dup2(copy, copy + 5));
    MUST(close(copy));
    await_peer(second);
    int third = MUST(dup3(second, second + 5, O_CLOEXEC));
    say("FD_CLOEXEC %d", MUST(fcntl(third, F_GETFD)));
    MUST(close(second));
    await_peer(third);
    int fourth = MUST(fcntl(third, F_DUPFD, 100));
    say("at least 100: %d", fourth >= 100);
    MUST(close(third));
    await_peer(fourth);
    int fifth = MUST(fcntl(fourth, F_DUPFD_CLOEXEC, 200));
    say("at least 200: %d, FD_CLOEXEC %d", fifth >= 200, MUST(fcntl(fifth, F_GETFD)));
    MUST(close(fourth));
    await_peer(fifth);
    outcome("dup2 to itself", dup2(fifth, fifth) - fifth);
    outcome("dup3 to itself", dup3(fifth, fifth, 0));
    outcome("dup of none", dup(fourth));
    outcome("dup2 of none", dup2(fourth, fifth));
    write_all(fifth, "still here", 10);
    expect_end(fifth);
}

static void duplicates_client(int port)
{
    int fd = dial(port);
    for (int copies = 0; copies < 5; copies++)
        signal_peer(fd);
    char text[11] = {0};
    say("%zu bytes: %s", read_all(fd, text, 10), text);
    MUST(close(fd));
}

/* Flags are of the open file, not of the number. */
static void flags_of_duplicates_server(int listener)
{
    int fd = take(listener), copy = MUST(dup(fd));
    char byte;
    set_nonblocking(copy, true);
    outcome("read of the other one", read(fd, &byte, 1));
    set_nonblocking(fd, false);
    say("O_NONBLOCK %d", !!(fcntl(copy, F_GETFL) & O_NONBLOCK));
    MUST(shutdown(copy, SHUT_WR));
    signal(SIGPIPE, SIG_IGN);
    outcome("write of the other one", write(fd, "x", 1));
    MUST(close(copy));
    expect_end(fd);
}

static void flags_of_duplicates_client(int port)
{
    expect_end(dial(port));
}

/* Java closes by dup2 of something else over the descriptor. */
static void closed_by_dup2_server(int listener)
{
    int fd = take(listener), null = MUST(open("/dev/null", O_RDWR));
    await_peer(fd);
    MUST(dup2(null, fd));
    outcome("read of what is there now", read(fd, &(char){0}, 1));
    outcome("shutdown of what is there now", shutdown(fd, SHUT_RDWR));
    /* The number may be a connection again. */
    int again = take(listener);
    MUST(dup2(again, fd));
    MUST(close(again));
    echo(fd, fd);
    MUST(close(fd));
}

static void closed_by_dup2_client(int port)
{
    int fd = dial(port);
    signal_peer(fd);
    expect_end(fd);
    echo_client(port);
}

/* Programs expect the lowest free number, and that nothing else is where they close. */
static void numbers_server(int listener)
{
    int first = welcome(listener), second = welcome(listener);
    say("accepted next to each other: %d", second - first);
    MUST(close(first));
    int file = MUST(open("/dev/null", O_RDONLY));
    say("the freed number is taken: %d", file - first);
    MUST(close(file));
    int third = welcome(listener);
    say("and by a connection: %d", third - first);
    MUST(close(third));
    expect_end(second);
}

static void numbers_client(int port)
{
    int first = greet(port), second = greet(port), third = greet(port);
    say("connected next to each other: %d %d", second - first, third - first);
    expect_end(first);
    expect_end(third);
    MUST(close(second));
}

/* Daemons close all that they do not know. */
static void closed_range_server(int listener)
{
    int fd = welcome(listener), other = welcome(listener);
    int high = MUST(dup2(fd, 50));
    MUST(close(fd));
    await_peer(high);
    outcome("close_range on exec", close_range(50, 50, CLOSE_RANGE_CLOEXEC));
    say("FD_CLOEXEC %d", fcntl(high, F_GETFD));
    outcome("close_range", close_range(40, ~0U, 0));
    outcome("read of the closed one", read(high, &(char){0}, 1));
    for (int number = 100; number < 1024; number++)
        if (close(number) == 0)
            say("a number the program never had was open");
    echo(other, other);
    MUST(close(other));
    int third = take(listener);
    closefrom(third);
    outcome("read after closefrom", read(third, &(char){0}, 1));
}

static void closed_range_client(int port)
{
    int fd = greet(port), other = greet(port);
    signal_peer(fd);
    expect_end(fd);
    send_pattern(other, 5000);
    receive_pattern(other, 5000);
    MUST(close(other));
    expect_end(dial(port));
}

/* --- half-close and close */

static void shutdowns_server(int listener)
{
    signal(SIGPIPE, SIG_IGN);
    int fd = take(listener);
    receive_pattern(fd, 500);
    outcome("read at the end", read(fd, &(char){0}, 1));
    send_pattern(fd, 700);
    outcome("shutdown", shutdown(fd, SHUT_WR));
    outcome("write after it", write(fd, "x", 1));
    MUST(close(fd));

    fd = take(listener);
    outcome("shutdown of receiving", shutdown(fd, SHUT_RD));
    outcome("read after it", read(fd, &(char){0}, 1));
    outcome("write after it", write(fd, "ab", 2));
    expect_end(fd);

    fd = take(listener);
    outcome("shutdown of both", shutdown(fd, SHUT_RDWR));
    outcome("read after it", read(fd, &(char){0}, 1));
    outcome("write after it", write(fd, "x", 1));
    MUST(close(fd));
}

static void shutdowns_client(int port)
{
    int fd = dial(port);
    send_pattern(fd, 500);
    MUST(shutdown(fd, SHUT_WR));
    receive_pattern(fd, 700);
    expect_end(fd);
    fd = dial(port);
    char two[2];
    say("%zu bytes", read_all(fd, two, 2));
    MUST(close(fd));
    expect_end(dial(port));
}

/* --- fork */

/* Waits for a child, and says how it ended. */
static void await_child(const char *name, pid_t child)
{
    int status;
    MUST(waitpid(child, &status, 0));
    say("%s ended with %d", name, status);
}

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

static void bystander_client(int port)
{
    int fd = dial(port);
    signal_peer(fd);
    for (int round = 0; round < 3; round++) {
        await_peer(fd);
        signal_peer(fd);
    }
    MUST(close(fd));
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

static void one_echo_server(int listener)
{
    int fd = take(listener);
    echo(fd, fd);
    MUST(close(fd));
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
    int fd = dial(port);
    signal_peer(fd);
    for (int round = 0; round < 12; round++) {
        await_peer(fd);
        signal_peer(fd);
    }
    MUST(close(fd));
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

/* --- the limit of descriptors is the program's */

static void limit_server(int listener)
{
    struct rlimit before, after;
    MUST(getrlimit(RLIMIT_NOFILE, &before));
    struct rlimit lower = {.rlim_cur = 64, .rlim_max = before.rlim_max};
    MUST(setrlimit(RLIMIT_NOFILE, &lower));
    MUST(getrlimit(RLIMIT_NOFILE, &after));
    say("soft limit %ld, hard limit the same: %d", (long)after.rlim_cur,
        after.rlim_max == before.rlim_max);
    int fd = take(listener), last = fd, next;
    while ((next = dup(STDERR_FILENO)) >= 0)
        last = next;
    outcome("dup at the limit", next);
    say("the last number is %d", last);
    await_peer(fd);
    signal_peer(fd);
    expect_end(fd);
}

static void limit_client(int port)
{
    int fd = dial(port);
    signal_peer(fd);
    await_peer(fd);
    MUST(close(fd));
}

/* The program has all numbers below its limit, and sees none above. */
#define MANY 30

static void own_limit(rlim_t soft)
{
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = soft;
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
}

static void limits_server(int listener)
{
    /* Whatever this process has inherited. */
    closefrom(listener + 1);
    own_limit(64);
    int fds[MANY];
    for (int at = 0; at < MANY; at++) {
        fds[at] = welcome(listener);
        say("accepted next to each other: %d", fds[at] - fds[0] == at);
    }
    for (int number = 64; number < 20000; number++) {
        if (fcntl(number, F_GETFD) >= 0)
            say("a number above the limit is open");
        if (close(number) == 0)
            say("a number above the limit could be closed");
    }
    outcome("dup2 above the limit", dup2(fds[0], 64));
    outcome("F_DUPFD above the limit", fcntl(fds[0], F_DUPFD, 64));
    int next, last = -1;
    while ((next = dup(STDERR_FILENO)) >= 0)
        last = next;
    outcome("dup at the limit", next);
    say("the last number is %d", last);
    outcome("accept at the limit", accept(listener, NULL, NULL));
    MUST(close(last));
    int another = take(listener);
    say("accepted at the last number: %d", another == last);
    await_peer(another);
    for (int at = 0; at < MANY; at++)
        signal_peer(fds[at]);
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    say("getrlimit: %d", (int)limit.rlim_cur);
    MUST(prlimit(0, RLIMIT_NOFILE, NULL, &limit));
    say("prlimit: %d", (int)limit.rlim_cur);
    say("sysconf: %ld", sysconf(_SC_OPEN_MAX));
    pid_t child = branch();
    if (child == 0) {
        closefrom(listener);
        execlp("sh", "sh", "-c", "ulimit -Sn", NULL);
        _exit(127);
    }
    await_child("the shell", child);
    signal_peer(another);
    expect_end(another);
    for (int at = 0; at < MANY; at++)
        expect_end(fds[at]);
}

static void limits_client(int port)
{
    closefrom(STDERR_FILENO + 1);
    own_limit(40);
    int fds[MANY];
    for (int at = 0; at < MANY; at++) {
        fds[at] = greet(port);
        say("connected next to each other: %d", fds[at] - fds[0] == at);
    }
    int another = dial(port);
    signal_peer(another);
    for (int at = 0; at < MANY; at++)
        await_peer(fds[at]);
    await_peer(another);
    MUST(close(another));
    for (int at = 0; at < MANY; at++)
        MUST(close(fds[at]));
}

/* A process that may have so few numbers that it counts them has all of them. */
#define FEW 32

static void counted_client(int port)
{
    closefrom(STDERR_FILENO + 1);
    struct rlimit few = {.rlim_cur = FEW, .rlim_max = FEW};
    MUST(setrlimit(RLIMIT_NOFILE, &few));
    int own = tcp();
    MUST(listen(own, 1));
    int next, last = -1;
    while ((next = dup(STDERR_FILENO)) >= 0)
        last = next;
    say("the last number is %d", last);
    outcome("close", close(last));
    echo_client(port);
}

/* It has them from then on if it is to have so few only when the library knows connections. */
static void lowered_server(int listener)
{
    one_echo_server(listener);
    one_echo_server(listener);
}

static void lowered_client(int port)
{
    closefrom(STDERR_FILENO + 1);
    echo_client(port);
    struct rlimit few = {.rlim_cur = FEW, .rlim_max = FEW};
    MUST(setrlimit(RLIMIT_NOFILE, &few));
    int fd = greet(port), count = 0;
    /* The library has whatever it needs for a connection by now. */
    await_peer(fd);
    while (dup(STDERR_FILENO) >= 0)
        count++;
    say("%d descriptors are left", count);
    MUST(close(fd));
}

/* Programs that are executed with their arguments one by one, more than registers hold. */
static void executed_server(int listener)
{
    int fd = take(listener);
    char *environment[] = {"GREETING=hello", NULL};
    for (int which = 0; which < 3; which++) {
        pid_t child = branch();
        if (child == 0) {
            dup2(fd, STDIN_FILENO);
            const char *text = "read line; echo $line $GREETING $# $9";
            if (which == 0)
                execl("/bin/sh", "sh", "-c", text, "0", "1", "2", "3", "4", "5", "6", "7", "8",
                    "9", NULL);
            else if (which == 1)
                execlp("sh", "sh", "-c", text, "0", "1", "2", "3", "4", "5", "6", "7", "8", "nine",
                    NULL);
            else
                execle("/bin/sh", "sh", "-c", text, "0", "1", "2", "3", "4", "5", "6", "7", "8",
                    "last", NULL, environment);
            _exit(127);
        }
        await_child("the shell", child);
        MUST(close(fd));
        fd = take(listener);
    }
    outcome("execl of none", execl("/nowhere", "nowhere", NULL));
    expect_end(fd);
}

static void executed_client(int port)
{
    for (int which = 0; which < 3; which++) {
        int fd = dial(port);
        write_all(fd, "line\n", 5);
        expect_end(fd);
    }
    MUST(close(dial(port)));
}

/* --- what it is */

static void kind_server(int listener)
{
    int fd = take(listener);
    struct stat status;
    MUST(fstat(fd, &status));
    say("fstat: a socket %d", S_ISSOCK(status.st_mode));
    MUST(fstatat(fd, "", &status, AT_EMPTY_PATH));
    say("fstatat: a socket %d", S_ISSOCK(status.st_mode));
    say("isatty %d", isatty(fd));
    char path[64], link[64] = {0};
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    MUST(readlink(path, link, sizeof link - 1));
    say("%.7s", link);
    say("flags %x", MUST(fcntl(fd, F_GETFL)) & (O_ACCMODE | O_NONBLOCK | O_APPEND));
    say("FD_CLOEXEC %d", MUST(fcntl(fd, F_GETFD)));
    MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
    say("FD_CLOEXEC %d", MUST(fcntl(fd, F_GETFD)));
    say("owner %d", MUST(fcntl(fd, F_GETOWN)));
    expect_end(fd);
}

static void kind_client(int port)
{
    MUST(close(dial(port)));
}

/* --- a socket handed to another process over a Unix socket */

static long pass(int way, int fd)
{
    char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
        .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    return sendmsg(way, &message, MSG_NOSIGNAL);
}

static int passed(int way)
{
    int fd = -1;
    char byte, control[CMSG_SPACE(sizeof fd)];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
        .msg_controllen = sizeof control};
    if (recvmsg(way, &message, 0) > 0 && CMSG_FIRSTHDR(&message) != NULL)
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* Refused over SMC: EINVAL, and the connection goes on where it was. */
static void passed_on_server(int listener)
{
    int fd = take(listener), ends[2];
    await_peer(fd);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    pid_t child = branch();
    if (child == 0) {
        MUST(close(ends[0]));
        MUST(close(fd));
        int own = passed(ends[1]);
        if (own >= 0)
            echo(own, own);
        _exit(own < 0);
    }
    MUST(close(ends[1]));
    long sent = pass(ends[0], fd);
    MUST(close(ends[0]));
    if (sent < 0) {
        outcome("sendmsg of a connection", sent);
        echo(fd, fd);
    } else {
        say("passed on");
    }
    MUST(close(fd));
    MUST(waitpid(child, NULL, 0));
}

static void passed_on_client(int port)
{
    int fd = dial(port);
    signal_peer(fd);
    send_pattern(fd, 5000);
    receive_pattern(fd, 5000);
    MUST(shutdown(fd, SHUT_WR));
    expect_end(fd);
}

/* Anything but a connection is passed on as ever. */
static void pipe_passed_server(int listener)
{
    int fd = take(listener), ends[2], way[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, way));
    MUST(pipe(ends));
    outcome("sendmsg of a pipe", pass(way[0], ends[1]));
    int copy = MUST(passed(way[1]));
    outcome("write to it", write(copy, "x", 1));
    outcome("sendmsg of a listener", pass(way[0], listener));
    MUST(close(MUST(passed(way[1]))));
    expect_end(fd);
}

const struct test_case cases[] = {
    {"duplicates", duplicates_server, duplicates_client},
    {"flags-of-duplicates", flags_of_duplicates_server, flags_of_duplicates_client},
    {"closed-by-dup2", closed_by_dup2_server, closed_by_dup2_client},
    {"numbers", numbers_server, numbers_client},
    {"closed-range", closed_range_server, closed_range_client},
    {"shutdowns", shutdowns_server, shutdowns_client},
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
    {"limit", limit_server, limit_client},
    {"limits", limits_server, limits_client},
    {"counted", one_echo_server, counted_client},
    {"lowered", lowered_server, lowered_client},
    {"executed", executed_server, executed_client},
    {"kind", kind_server, kind_client},
    {"passed-on", passed_on_server, passed_on_client},
    {"pipe-passed", pipe_passed_server, kind_client},
    {NULL, NULL, NULL},
};
