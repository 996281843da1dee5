/* Threads that share a connection, or a set. */
#include "scenario.h"

/* Trap 18: threads. */
static void *reads(void *of)
{
	expect(*(int *)of, "answer");
	return NULL;
}

void threads_client(int listener)
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
void shared_set_server(int listener)
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

void shared_set_client(int listener)
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
