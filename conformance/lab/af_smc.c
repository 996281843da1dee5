/*
 * Preloaded into a program of TCP: its stream sockets are AF_SMC, those of the kernel.
 *
 * Where the kernel refuses such a socket, socket() fails, so that no connection is TCP unseen.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FAMILY_SMC 43
#define PROTOCOL_SMC_IPV4 0
#define PROTOCOL_SMC_IPV6 1

__attribute__((visibility("default"))) int socket(int family, int type, int protocol)
{
	int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
	int internet = family == AF_INET || family == AF_INET6;
	int tcp = protocol == 0 || protocol == IPPROTO_TCP;

	if (internet && kind == SOCK_STREAM && tcp) {
		protocol = family == AF_INET6 ? PROTOCOL_SMC_IPV6 : PROTOCOL_SMC_IPV4;
		family = FAMILY_SMC;
	}
	return (int)syscall(SYS_socket, family, type, protocol);
}
