/* One program for all scenarios: a parent that accepts and a child that connects. It is run as it
 * is, over TCP, and with the library, over SMC: what it sees must be the same. */
#include "scenario.h"

/* Servers of their own, whose client is the test. */
static struct {
	const char *name;
	scenario *server;
} alone[] = {
	{"few", few_server},
	{"none-left", none_left_server},
	{"executes", exec_server},
	{"vforks", vfork_server},
	{"vfork-killed", vfork_killed_server},
	{"vfork-killed-unused", vfork_killed_unused_server},
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
