//! Listening and connecting, also to peers of plain TCP.

use std::io::ErrorKind;
use std::net::SocketAddr;

use smc_sockets::tokio::{SmcSocket, SmcStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::common::stack;
use crate::support::{listener, on_both};

on_both! {
    the_unspecified_address_reaches_a_server_of_this_host
    plain_tcp_peers_are_served
}

async fn the_unspecified_address_reaches_a_server_of_this_host() {
    let (listener, address) = listener().await;
    let client = stack();
    let to = SocketAddr::from(([0, 0, 0, 0], address.port()));
    // The second one is announced to a server that is known.
    for _ in 0..2 {
        let connecting = SmcStream::connect_on(&client, to);
        let (stream, accepted) = tokio::join!(connecting, listener.accept());
        let stream = stream.unwrap();
        assert!(stream.carrier().is_smc(), "{}", stream.carrier());
        assert_eq!(stream.peer_addr().unwrap(), address);
        drop(accepted.unwrap());
    }
}

async fn plain_tcp_peers_are_served() {
    let (listener, address) = listener().await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    assert!(!server.carrier().is_smc());
    client.write_all(b"question").await.unwrap();
    let mut octets = [0; 8];
    server.read_exact(&mut octets).await.unwrap();
    server.write_all(b"answer").await.unwrap();
    server.shutdown().await.unwrap();
    let mut all = String::new();
    client.read_to_string(&mut all).await.unwrap();
    assert_eq!(all, "answer");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stack = stack();
    let connecting = SmcStream::connect_on(&stack, address);
    let (client, server) = tokio::join!(connecting, listener.accept());
    let (mut client, (mut server, _)) = (client.unwrap(), server.unwrap());
    assert!(!client.carrier().is_smc());
    server.write_all(b"greeting").await.unwrap();
    drop(server);
    let mut all = String::new();
    client.read_to_string(&mut all).await.unwrap();
    assert_eq!(all, "greeting");
    let error = SmcStream::connect_on(&stack, "127.0.0.1:1")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

/// Sockets of which options are set before they listen and connect.
#[tokio::test]
async fn sockets_listen_and_connect() {
    let socket = SmcSocket::new_v4_on(&stack()).unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(16).unwrap();
    listener.set_ttl(17).unwrap();
    assert_eq!(listener.ttl().unwrap(), 17);
    let address = listener.local_addr().unwrap();
    let socket = SmcSocket::new_v4_on(&stack()).unwrap();
    let (client, accepted) = tokio::join!(socket.connect(address), listener.accept());
    let (mut client, (mut server, _)) = (client.unwrap(), accepted.unwrap());
    assert!(client.carrier().is_smc(), "{}", client.carrier());
    client.write_all(b"!").await.unwrap();
    assert_eq!(server.read_u8().await.unwrap(), b'!');
}
