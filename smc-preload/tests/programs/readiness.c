/* Waits: epoll, poll and select, and signals that end them. */
#include "scenario.h"

/* Trap 8: registered before it connects. */
void epoll_before_connect_client(int listener)
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
void epoll_kinds_server(int listener)
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

void epoll_kinds_client(int listener)
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
void nested_server(int listener)
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

void nested_client(int listener)
{
	int fd = connected();
	for (int round = 0; round < 40; round++) {
		expect(fd, "go");
		usleep(round % 3 * 500);
		send_text(fd, "x");
	}
	expect_end(fd);
}

/* Waits for connections and others at a time. */
void mixed_client(int listener)
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

static void handles(int number) {}

void signal_client(int listener)
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
