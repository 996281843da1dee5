/* One program for all scenarios: a parent that accepts and a child that connects. It is run as it
 * is, over TCP, and with the library, over SMC: what it sees must be the same. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                                    \
	do {                                                                           \
		if (!(what)) {                                                         \
			dprintf(2, "line %d: %s (errno %d)\n", __LINE__, #what, errno); \
			_exit(1);                                                      \
		}                                                                      \
	} while (0)

static struct sockaddr_in address;
#define LONG 20000 /* milliseconds: a wait that fails */

static int listening(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof address;
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, len) == 0);
	CHECK(listen(fd, 64) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
	return fd;
}

static int connected(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
	return fd;
}

static int accepted(int listener)
{
	struct sockaddr_in peer;
	socklen_t len = sizeof peer;
	int fd = accept(listener, (struct sockaddr *)&peer, &len);
	CHECK(fd >= 0 && peer.sin_family == AF_INET && len == sizeof peer);
	return fd;
}

static void write_all(int fd, const char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t done = write(fd, bytes, len);
		CHECK(done > 0);
		bytes += done;
		len -= done;
	}
}

static void read_all(int fd, char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t done = read(fd, bytes, len);
		CHECK(done > 0);
		bytes += done;
		len -= done;
	}
}

static void expect(int fd, const char *text)
{
	char bytes[256] = {0};
	read_all(fd, bytes, strlen(text));
	CHECK(strcmp(bytes, text) == 0);
}

static void send_text(int fd, const char *text) { write_all(fd, text, strlen(text)); }

static void expect_end(int fd)
{
	char byte;
	CHECK(read(fd, &byte, 1) == 0);
}

static int wait_for(int fd, short events)
{
	struct pollfd polled = {.fd = fd, .events = events};
	CHECK(poll(&polled, 1, LONG) == 1);
	return polled.revents;
}

static void nonblocking(int fd) { CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0); }

static void add(int set, int fd, unsigned events, unsigned long data)
{
	struct epoll_event event = {.events = events, .data.u64 = data};
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
}

/* The only event, which must be of this data. */
static unsigned event_of(int set, unsigned long data, int time)
{
	struct epoll_event events[4];
	int found = epoll_wait(set, events, 4, time);
	if (found == 0)
		return 0;
	CHECK(found == 1 && events[0].data.u64 == data);
	return events[0].events;
}

/* Each scenario has a side that accepts and one that connects. */
typedef void scenario(int listener);

static void echo_server(int listener)
{
	static char bytes[1 << 20];
	int fd = accepted(listener);
	read_all(fd, bytes, sizeof bytes);
	write_all(fd, bytes, sizeof bytes);
	expect_end(fd);
}

static void echo_client(int listener)
{
	static char bytes[1 << 20], back[1 << 20];
	for (size_t at = 0; at < sizeof bytes; at++)
		bytes[at] = (char)(at * 2654435761u >> 13);
	int fd = connected();
	write_all(fd, bytes, sizeof bytes);
	read_all(fd, back, sizeof back);
	CHECK(memcmp(bytes, back, sizeof back) == 0);
}

/* Trap 1 and 2: a second connect() returns how the first went, and addresses are TCP's. */
static void answer_server(int listener)
{
	int fd = accepted(listener);
	expect(fd, "question");
	send_text(fd, "answer");
	expect_end(fd);
}

static void second_connect_client(int listener)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = 1;
	struct sockaddr_in peer;
	socklen_t len = sizeof peer;
	int done = connect(fd, (struct sockaddr *)&address, sizeof address);
	CHECK(done == 0 || errno == EINPROGRESS);
	CHECK(wait_for(fd, POLLOUT) == POLLOUT);
	done = connect(fd, (struct sockaddr *)&address, sizeof address);
	CHECK(done == 0 || errno == EISCONN);
	CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == -1 && errno == EISCONN);
	CHECK(getpeername(fd, (struct sockaddr *)&peer, &len) == 0);
	CHECK(peer.sin_family == AF_INET && peer.sin_port == address.sin_port);
	len = sizeof error;
	CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0);
	CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
	char byte;
	CHECK(read(fd, &byte, 1) == -1 && errno == EAGAIN);
	send_text(fd, "question");
	CHECK(wait_for(fd, POLLIN) == POLLIN);
	expect(fd, "answer");
}

/* Trap 8: registered before it connects. */
static void epoll_before_connect_client(int listener)
{
	int set = epoll_create1(0), fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	add(set, fd, EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, 0xfedcba9876543210);
	epoll_wait(set, (struct epoll_event[4]){0}, 4, 0);
	int done = connect(fd, (struct sockaddr *)&address, sizeof address);
	CHECK(done == 0 || errno == EINPROGRESS);
	CHECK(event_of(set, 0xfedcba9876543210, LONG) == EPOLLOUT);
	send_text(fd, "question");
	unsigned events;
	do
		events = event_of(set, 0xfedcba9876543210, LONG);
	while (!(events & EPOLLIN));
	expect(fd, "answer");
}

/* Level, edge, once; changed and removed. */
static void epoll_kinds_server(int listener)
{
	int fd = accepted(listener), set = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = 2};
	add(set, fd, EPOLLIN, 1);
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == -1 && errno == EEXIST);
	CHECK(event_of(set, 1, 0) == 0);
	send_text(fd, "go");
	CHECK(event_of(set, 1, LONG) == EPOLLIN);
	CHECK(event_of(set, 1, LONG) == EPOLLIN);
	event.events = EPOLLIN | EPOLLET;
	CHECK(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) == 0);
	CHECK(event_of(set, 2, LONG) == EPOLLIN);
	int edges = 0;
	for (int at = 0; at < 100; at++)
		edges += event_of(set, 2, 0) != 0;
	CHECK(edges < 10);
	send_text(fd, "go");
	CHECK(event_of(set, 2, LONG) == EPOLLIN);
	event.events = EPOLLIN | EPOLLONESHOT;
	CHECK(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) == 0);
	CHECK(event_of(set, 2, LONG) == EPOLLIN);
	CHECK(event_of(set, 2, 50) == 0);
	event.events = EPOLLOUT;
	CHECK(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) == 0);
	CHECK(event_of(set, 2, LONG) == EPOLLOUT);
	event.events = EPOLLIN;
	expect(fd, "onetwo");
	CHECK(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) == 0);
	CHECK(event_of(set, 2, 0) == 0);
	CHECK(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL) == 0);
	CHECK(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL) == -1 && errno == ENOENT);
	CHECK(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) == -1 && errno == ENOENT);
	send_text(fd, "go");
	wait_for(fd, POLLIN);
	CHECK(event_of(set, 2, 0) == 0);
	add(set, fd, EPOLLIN | EPOLLRDHUP, 3);
	CHECK(event_of(set, 3, LONG) & EPOLLIN);
	expect(fd, "three");
	expect_end(fd);
	CHECK(event_of(set, 3, LONG) == (EPOLLIN | EPOLLRDHUP));
	/* A set that its connections outlive. */
	close(set);
	send_text(fd, "end");
	close(fd);
}

static void epoll_kinds_client(int listener)
{
	int fd = connected();
	expect(fd, "go");
	send_text(fd, "one");
	expect(fd, "go");
	send_text(fd, "two");
	expect(fd, "go");
	send_text(fd, "three");
	shutdown(fd, SHUT_WR);
	expect(fd, "end");
	expect_end(fd);
}

/* Trap 9: a set in a set, and a set that is polled. */
static void nested_server(int listener)
{
	int fd = accepted(listener), inner = epoll_create1(0), outer = epoll_create1(0);
	add(outer, inner, EPOLLIN, 7);
	add(inner, fd, EPOLLIN, 1);
	for (int round = 0; round < 20; round++) {
		CHECK(event_of(inner, 1, 0) == 0);
		send_text(fd, "go");
		while (event_of(outer, 7, LONG), event_of(inner, 1, 0) == 0)
			;
		expect(fd, "x");
		send_text(fd, "go");
		do
			CHECK(wait_for(inner, POLLIN) == POLLIN);
		while (event_of(inner, 1, 0) == 0);
		expect(fd, "x");
	}
	close(fd);
}

static void nested_client(int listener)
{
	int fd = connected();
	for (int round = 0; round < 40; round++) {
		expect(fd, "go");
		usleep(round % 3 * 500);
		send_text(fd, "x");
	}
	expect_end(fd);
}

/* Trap 6: duplicates keep the connection. */
static void dup_client(int listener)
{
	int fd = connected(), other = dup(fd), high = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	int over = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(other >= 0 && high >= 100);
	close(fd);
	send_text(other, "quest");
	CHECK(dup2(other, over) == over);
	close(other);
	send_text(over, "ion");
	close(over);
	expect(high, "answer");
	CHECK(dup2(0, high) == high);
}

/* Trap 5. */
static void sendfile_client(int listener)
{
	char path[] = "/tmp/smc-preload-XXXXXX";
	int file = mkstemp(path), fd = connected();
	off_t offset = 2;
	unlink(path);
	write_all(file, "..question", 10);
	CHECK(sendfile(fd, file, &offset, 4) == 4 && offset == 6);
	CHECK(lseek(file, 6, SEEK_SET) == 6);
	CHECK(sendfile(fd, file, NULL, 100) == 4 && lseek(file, 0, SEEK_CUR) == 10);
	expect(fd, "answer");
}

/* Trap 7: a child serves what its parent has accepted. */
static void fork_server(int listener)
{
	int fd = accepted(listener), status;
	pid_t child = fork();
	if (child == 0) {
		close(listener);
		expect(fd, "question");
		send_text(fd, "answer");
		expect_end(fd);
		_exit(0);
	}
	close(fd);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void answered_client(int listener)
{
	int fd = connected();
	send_text(fd, "question");
	expect(fd, "answer");
}

/* A program that a child executes has the connection as its standard input and output. */
static void exec_server(int listener)
{
	int fd = accepted(listener), status;
	pid_t child = fork();
	if (child == 0) {
		dup2(fd, 0);
		dup2(fd, 1);
		close(fd);
		char *arguments[] = {"/bin/cat", NULL};
		execv("/bin/cat", arguments);
		_exit(127);
	}
	close(fd);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* A child that has the memory of its parent until it executes a program. */
static void vfork_server(int listener)
{
	int fd = accepted(listener), status;
	pid_t child = vfork();
	if (child == 0) {
		dup2(fd, 0);
		dup2(fd, 1);
		close(fd);
		char *arguments[] = {"/bin/cat", NULL};
		execv("/bin/cat", arguments);
		_exit(127);
	}
	close(fd);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* A thread of the parent kills the child before that has executed a program. */
static volatile pid_t sharing;

static void *kills(void *of)
{
	while (!sharing)
		usleep(1000);
	usleep(20000); /* most often, the child waits for the client by then */
	kill(sharing, SIGKILL);
	return NULL;
}

static void echo_all(int fd);

static void vfork_killed_server(int listener)
{
	int fd = accepted(listener), status;
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, kills, NULL) == 0);
	pid_t child = vfork();
	if (child == 0) {
		sharing = getpid();
		dup2(fd, 0);
		char *arguments[] = {"/bin/true", NULL};
		execv("/bin/true", arguments);
		_exit(127);
	}
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(waitpid(child, &status, 0) == child && (WIFSIGNALED(status) || status == 0));
	dprintf(1, WIFSIGNALED(status) ? "killed\n" : "it ran\n");
	echo_all(fd);
	CHECK(read(0, &status, 1) == 0);
}

static void spawn_server(int listener)
{
	int fd = accepted(listener), status;
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fd, 0);
	posix_spawn_file_actions_adddup2(&actions, fd, 1);
	posix_spawn_file_actions_addclose(&actions, fd);
	pid_t child;
	char *arguments[] = {"/bin/cat", NULL};
	CHECK(posix_spawn(&child, "/bin/cat", &actions, NULL, arguments, environ) == 0);
	posix_spawn_file_actions_destroy(&actions);
	close(fd);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* The program has the connection where its parent has it. */
static void system_server(int listener)
{
	int fd = accepted(listener), input = dup(0), output = dup(1);
	CHECK(dup2(fd, 0) == 0 && dup2(fd, 1) == 1);
	CHECK(system("cat") == 0);
	CHECK(dup2(input, 0) == 0 && dup2(output, 1) == 1);
	close(fd);
}

static void cat_client(int listener)
{
	int fd = connected();
	send_text(fd, "question");
	expect(fd, "question");
	shutdown(fd, SHUT_WR);
	expect_end(fd);
}

/* Trap 4: several processes accept from one listener. */
static void workers_server(int listener)
{
	int status;
	pid_t workers[3];
	for (int worker = 0; worker < 3; worker++)
		if ((workers[worker] = fork()) == 0) {
			for (;;) {
				int fd = accepted(listener);
				char bytes[9] = {0};
				read_all(fd, bytes, 8);
				if (strcmp(bytes, "the end.") == 0)
					_exit(0);
				send_text(fd, "answer");
				close(fd);
			}
		}
	for (int worker = 0; worker < 3; worker++)
		CHECK(waitpid(workers[worker], &status, 0) > 0 && status == 0);
}

static void workers_client(int listener)
{
	for (int number = 0; number < 30; number++) {
		int fd = connected();
		send_text(fd, "question");
		expect(fd, "answer");
		close(fd);
	}
	for (int worker = 0; worker < 3; worker++)
		send_text(connected(), "the end.");
}

static void half_close_server(int listener)
{
	int fd = accepted(listener);
	struct pollfd polled = {.fd = fd, .events = POLLRDHUP};
	CHECK(poll(&polled, 1, LONG) == 1 && polled.revents == POLLRDHUP);
	expect(fd, "question");
	expect_end(fd);
	send_text(fd, "answer");
	close(fd);
}

static void half_close_client(int listener)
{
	int fd = connected();
	send_text(fd, "question");
	CHECK(shutdown(fd, SHUT_WR) == 0);
	signal(SIGPIPE, SIG_IGN);
	CHECK(write(fd, "x", 1) == -1 && errno == EPIPE);
	expect(fd, "answer");
	expect_end(fd);
	int events = wait_for(fd, POLLIN | POLLOUT | POLLRDHUP);
	CHECK((events & (POLLIN | POLLRDHUP | POLLHUP)) == (POLLIN | POLLRDHUP | POLLHUP));
}

/* Waits for connections and others at a time. */
static void mixed_client(int listener)
{
	int fd = connected(), ends[2];
	CHECK(pipe(ends) == 0);
	struct pollfd polled[] = {{.fd = ends[0], .events = POLLIN}, {.fd = fd, .events = POLLIN}, {.fd = -1}};
	CHECK(poll(polled, 3, 20) == 0);
	send_text(ends[1], "!");
	CHECK(poll(polled, 3, LONG) == 1 && polled[0].revents == POLLIN && polled[1].revents == 0);
	expect(ends[0], "!");
	fd_set in, out;
	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_SET(fd, &in);
	FD_SET(fd, &out);
	FD_SET(ends[0], &in);
	struct timeval time = {.tv_sec = 20};
	CHECK(select(ends[1] + 1, &in, &out, NULL, &time) == 1 && FD_ISSET(fd, &out) && !FD_ISSET(fd, &in));
	send_text(fd, "question");
	FD_ZERO(&in);
	FD_SET(fd, &in);
	FD_SET(ends[0], &in);
	CHECK(select(ends[1] + 1, &in, NULL, NULL, &time) == 1 && FD_ISSET(fd, &in));
	int set = epoll_create1(0);
	add(set, ends[0], EPOLLIN, 1);
	add(set, fd, EPOLLIN, 2);
	CHECK(event_of(set, 2, LONG) == EPOLLIN);
	expect(fd, "answer");
	CHECK(event_of(set, 2, 20) == 0);
	send_text(ends[1], "!");
	CHECK(event_of(set, 1, LONG) == EPOLLIN);
}

/* Trap 18: threads. */
static void *reads(void *of)
{
	expect(*(int *)of, "answer");
	return NULL;
}

static void threads_client(int listener)
{
	int fd = connected();
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, reads, &fd) == 0);
	usleep(20000); /* most often, the other thread waits by then */
	send_text(fd, "question");
	CHECK(pthread_join(thread, NULL) == 0);
}

static int shared_set;

static void *waits(void *of)
{
	struct epoll_event event;
	CHECK(epoll_wait(shared_set, &event, 1, LONG) == 1);
	expect(event.data.fd, "x");
	return NULL;
}

/* Threads that wait at a set when it gets connections. */
static void shared_set_server(int listener)
{
	pthread_t threads[3];
	int fds[3];
	shared_set = epoll_create1(0);
	for (int at = 0; at < 3; at++)
		CHECK(pthread_create(&threads[at], NULL, waits, NULL) == 0);
	usleep(20000);
	for (int at = 0; at < 3; at++) {
		fds[at] = accepted(listener);
		add(shared_set, fds[at], EPOLLIN | EPOLLONESHOT, fds[at]);
	}
	for (int at = 0; at < 3; at++)
		send_text(fds[at], "go");
	for (int at = 0; at < 3; at++)
		CHECK(pthread_join(threads[at], NULL) == 0);
	for (int at = 0; at < 3; at++)
		close(fds[at]);
}

static void shared_set_client(int listener)
{
	int fds[3];
	for (int at = 0; at < 3; at++)
		fds[at] = connected();
	for (int at = 0; at < 3; at++) {
		expect(fds[at], "go");
		usleep(5000);
		send_text(fds[at], "x");
	}
	for (int at = 0; at < 3; at++)
		expect_end(fds[at]);
}

static void flags_client(int listener)
{
	int fd = connected(), count = 0;
	char bytes[16] = {0}, rest[16] = {0};
	CHECK(recv(fd, bytes, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
	send_text(fd, "question");
	CHECK(recv(fd, bytes, 6, MSG_WAITALL | MSG_PEEK) > 0);
	CHECK(recv(fd, bytes, 4, MSG_WAITALL) == 4 && memcmp(bytes, "answ", 4) == 0);
	do
		CHECK(ioctl(fd, FIONREAD, &count) == 0);
	while (count < 2);
	struct iovec slices[] = {{bytes, 1}, {rest, 15}};
	struct msghdr message = {.msg_iov = slices, .msg_iovlen = 2};
	CHECK(recvmsg(fd, &message, 0) == 2 && bytes[0] == 'e' && rest[0] == 'r');
	CHECK(preadv(fd, slices, 2, 0) == -1 && errno == ESPIPE);
	CHECK(lseek(fd, 0, SEEK_CUR) == -1 && errno == ESPIPE);
	int kind = 0, domain = 0;
	socklen_t len = sizeof kind;
	CHECK(getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &len) == 0 && kind == SOCK_STREAM);
	CHECK(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_INET);
	struct tcp_info info;
	len = sizeof info;
	CHECK(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 && info.tcpi_state == 1);
	struct timeval time = {.tv_usec = 20000};
	CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
	CHECK(read(fd, bytes, 1) == -1 && errno == EAGAIN);
}

static void handles(int number) {}

static void signal_client(int listener)
{
	int fd = connected();
	char byte;
	struct sigaction action = {.sa_handler = handles};
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	ualarm(20000, 20000);
	CHECK(read(fd, &byte, 1) == -1 && errno == EINTR);
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	CHECK(poll(&polled, 1, LONG) == -1 && errno == EINTR);
	int set = epoll_create1(0);
	add(set, fd, EPOLLIN, 1);
	struct epoll_event event;
	CHECK(epoll_wait(set, &event, 1, LONG) == -1 && errno == EINTR);
	ualarm(0, 0);
	send_text(fd, "question");
	expect(fd, "answer");
}

static void refused_client(int listener)
{
	struct sockaddr_in closed = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), error = 0;
	socklen_t len = sizeof closed;
	CHECK(bind(fd, (struct sockaddr *)&closed, len) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&closed, &len) == 0);
	int other = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(other, (struct sockaddr *)&closed, sizeof closed) == -1 && errno == ECONNREFUSED);
	other = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (connect(other, (struct sockaddr *)&closed, sizeof closed) == -1 && errno == EINPROGRESS) {
		CHECK(wait_for(other, POLLOUT) & POLLERR);
		len = sizeof error;
		CHECK(getsockopt(other, SOL_SOCKET, SO_ERROR, &error, &len) == 0);
		CHECK(error == ECONNREFUSED);
	}
	answered_client(listener);
}

static void stdio_client(int listener)
{
	int fd = connected();
	FILE *stream = fdopen(fd, "r+");
	char answer[7] = {0};
	CHECK(stream && fileno(stream) == fd);
	CHECK(fprintf(stream, "quest%s", "ion") == 8 && fflush(stream) == 0);
	CHECK(fread(answer, 6, 1, stream) == 1 && strcmp(answer, "answer") == 0);
	CHECK(fclose(stream) == 0);
}

/* A connection that a parent uses is the parent's. */
static void inherited_client(int listener)
{
	int fd = connected(), status;
	send_text(fd, "quest");
	pid_t child = fork();
	if (child == 0) {
		close(fd);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	send_text(fd, "ion");
	expect(fd, "answer");
}


/* Of a process that is killed the peer gets the end of the stream. */
static void killed_server(int listener)
{
	int fd = accepted(listener);
	expect(fd, "question");
	send_text(fd, "answer");
	expect_end(fd);
	wait_for(fd, POLLIN);
	expect_end(fd);
}

/* The first bytes that either side sends are printed. */
static void printed_server(int listener)
{
	int fd = accepted(listener);
	CHECK(dprintf(fd, "%d %s %.2f %d %d %d %d", 1, "two", 3.5, 4, 5, 6, 7) == 18);
	expect(fd, "answer");
	expect_end(fd);
}

static void printed_client(int listener)
{
	int fd = connected();
	expect(fd, "1 two 3.50 4 5 6 7");
	CHECK(dprintf(fd, "ans%s", "wer") == 6);
}

static void killed_client(int listener)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		answered_client(listener);
		kill(getpid(), SIGKILL);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

/* Calls by number. */
static void number_client(int listener)
{
	int fd = connected();
	char answer[7] = {0};
	CHECK(syscall(SYS_write, fd, "question", 8) == 8);
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	CHECK(syscall(SYS_ppoll, &polled, 1, NULL, NULL, 0) == 1 && polled.revents == POLLIN);
	CHECK(syscall(SYS_recvfrom, fd, answer, 6, MSG_WAITALL, NULL, NULL) == 6);
	CHECK(strcmp(answer, "answer") == 0);
	CHECK(syscall(SYS_close, fd) == 0);
	CHECK(syscall(SYS_close, fd) == -1 && errno == EBADF);
}

/* A connection cannot be passed to another process: it says so, and TCP can be. */
static void passed_client(int listener)
{
	int fd = connected(), pair[2];
	char buffer[CMSG_SPACE(sizeof fd)] = {0};
	struct iovec slice = {"x", 1};
	struct msghdr message = {.msg_iov = &slice, .msg_iovlen = 1, .msg_control = buffer, .msg_controllen = sizeof buffer};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	*header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
	memcpy(CMSG_DATA(header), &fd, sizeof fd);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	ssize_t sent = sendmsg(pair[0], &message, 0);
	CHECK(sent == 1 || (sent == -1 && errno == EINVAL && getenv("LD_PRELOAD")));
	send_text(fd, "question");
	expect(fd, "answer");
}

/* Servers of their own, whose client is the test. */
static void echo_all(int fd)
{
	char bytes[256];
	ssize_t len;
	while ((len = read(fd, bytes, sizeof bytes)) > 0)
		write_all(fd, bytes, len);
	dprintf(1, "errno %d\n", len < 0 ? errno : 0);
	close(fd);
}

static void permit(rlim_t descriptors)
{
	struct rlimit limit = {descriptors, descriptors};
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* So few that the library takes none. */
static void few_server(int listener)
{
	permit(60);
	echo_all(accepted(listener));
}

/* The program has all but the one for the connection. */
static void none_left_server(int listener)
{
	int any, last = -1;
	permit(100);
	while ((any = dup(listener)) >= 0)
		last = last < 0 ? any : last;
	CHECK(errno == EMFILE && close(last) == 0);
	echo_all(accepted(listener));
}

/* The client is of the same process. */
static void own_server(int listener)
{
	in_addr_t to[] = {INADDR_LOOPBACK, INADDR_ANY};
	for (int round = 0; round < 4; round++) {
		int client = socket(AF_INET, SOCK_STREAM, 0);
		address.sin_addr.s_addr = htonl(to[round / 2]);
		if (round % 2)
			nonblocking(client);
		int begun = connect(client, (struct sockaddr *)&address, sizeof address);
		CHECK(begun == 0 || (round % 2 && errno == EINPROGRESS));
		int fd = accepted(listener);
		send_text(fd, "answer");
		wait_for(client, POLLIN);
		expect(client, "answer");
		send_text(client, "question");
		wait_for(fd, POLLIN);
		expect(fd, "question");
		close(client);
		expect_end(fd);
		close(fd);
	}
}

static struct {
	const char *name;
	scenario *server;
} alone[] = {
	{"few", few_server},
	{"none-left", none_left_server},
	{"executes", exec_server},
	{"vforks", vfork_server},
	{"vfork-killed", vfork_killed_server},
	{"spawns", spawn_server},
	{"system", system_server},
	{"own", own_server},
};

/* It accepts once the test has sent what it wants to be there. */
static int serve_alone(const char *name, const char *port)
{
	for (size_t at = 0; at < sizeof alone / sizeof *alone; at++) {
		if (strcmp(alone[at].name, name))
			continue;
		char go;
		alarm(60);
		address.sin_port = htons(atoi(port));
		int listener = listening();
		dprintf(1, "listens\n");
		CHECK(read(0, &go, 1) == 1);
		alone[at].server(listener);
		return 0;
	}
	return 2;
}

static struct {
	const char *name;
	scenario *server, *client;
} all[] = {
	{"echo", echo_server, echo_client},
	{"second-connect", answer_server, second_connect_client},
	{"epoll-before-connect", answer_server, epoll_before_connect_client},
	{"epoll-kinds", epoll_kinds_server, epoll_kinds_client},
	{"nested", nested_server, nested_client},
	{"dup", answer_server, dup_client},
	{"sendfile", answer_server, sendfile_client},
	{"fork", fork_server, answered_client},
	{"exec", exec_server, cat_client},
	{"workers", workers_server, workers_client},
	{"half-close", half_close_server, half_close_client},
	{"mixed", answer_server, mixed_client},
	{"threads", answer_server, threads_client},
	{"shared-set", shared_set_server, shared_set_client},
	{"flags", answer_server, flags_client},
	{"signal", answer_server, signal_client},
	{"refused", answer_server, refused_client},
	{"stdio", answer_server, stdio_client},
	{"inherited", answer_server, inherited_client},
	{"printed", printed_server, printed_client},
	{"killed", killed_server, killed_client},
	{"number", answer_server, number_client},
	{"passed", answer_server, passed_client},
};

int main(int count, char **arguments)
{
	if (count == 3)
		return serve_alone(arguments[1], arguments[2]);
	for (size_t at = 0; count == 2 && at < sizeof all / sizeof *all; at++) {
		if (strcmp(all[at].name, arguments[1]))
			continue;
		int listener = listening(), status;
		pid_t child = fork();
		alarm(60);
		if (child == 0) {
			close(listener);
			all[at].client(-1);
			exit(0);
		}
		all[at].server(listener);
		CHECK(waitpid(child, &status, 0) == child && status == 0);
		exit(0);
	}
	return 2;
}
