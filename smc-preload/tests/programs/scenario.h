/* What the scenarios share, and where each of them is. */
#pragma once
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
			dprintf(2, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #what, \
				errno);                                                \
			_exit(1);                                                      \
		}                                                                      \
	} while (0)

/* Where the server listens. */
extern struct sockaddr_in address;
#define LONG 20000 /* milliseconds: a wait that fails */

int listening(void);
int connected(void);
int accepted(int listener);
void write_all(int fd, const char *bytes, size_t len);
void read_all(int fd, char *bytes, size_t len);
void expect(int fd, const char *text);
void send_text(int fd, const char *text);
void expect_end(int fd);
int wait_for(int fd, short events);
void nonblocking(int fd);
void add(int set, int fd, unsigned events, unsigned long data);
/* The only event, which must be of this data. */
unsigned event_of(int set, unsigned long data, int time);
/* Sends back what comes, and prints how that has ended. */
void echo_all(int fd);

/* Each scenario has a side that accepts and one that connects. */
typedef void scenario(int listener);
scenario answer_server, answered_client;
/* connecting.c */
scenario second_connect_client, refused_client, own_server;
/* data.c */
scenario echo_server, echo_client, half_close_server, half_close_client, flags_client,
	sendfile_client, number_client;
/* descriptors.c */
scenario dup_client, inherited_client, passed_client, few_server, none_left_server;
/* executed.c */
scenario exec_server, vfork_server, vfork_killed_server, vfork_killed_unused_server,
	spawn_server, system_server, cat_client;
/* processes.c */
scenario fork_server, workers_server, workers_client, killed_server, killed_client;
/* readiness.c */
scenario epoll_before_connect_client, epoll_kinds_server, epoll_kinds_client, nested_server,
	nested_client, mixed_client, signal_client;
/* stdio.c */
scenario stdio_client, printed_server, printed_client;
/* threads.c */
scenario threads_client, shared_set_server, shared_set_client;
