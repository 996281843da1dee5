/* Programs that are executed with a connection as their standard input and output. */
#include "scenario.h"

/* A program that a child executes has the connection as its standard input and output. */
void exec_server(int listener)
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
void vfork_server(int listener)
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

static int after_killed_child(int listener)
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
	return fd;
}

void vfork_killed_server(int listener)
{
	char end;
	echo_all(after_killed_child(listener));
	CHECK(read(0, &end, 1) == 0);
}

/* It closes what it has not used. */
void vfork_killed_unused_server(int listener)
{
	char end;
	close(after_killed_child(listener));
	CHECK(read(0, &end, 1) == 0);
}

void spawn_server(int listener)
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
void system_server(int listener)
{
	int fd = accepted(listener), input = dup(0), output = dup(1);
	CHECK(dup2(fd, 0) == 0 && dup2(fd, 1) == 1);
	CHECK(system("cat") == 0);
	CHECK(dup2(input, 0) == 0 && dup2(output, 1) == 1);
	close(fd);
}

void cat_client(int listener)
{
	int fd = connected();
	send_text(fd, "question");
	expect(fd, "question");
	shutdown(fd, SHUT_WR);
	expect_end(fd);
}
