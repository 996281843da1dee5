//! Lines on tokio: each goes to all other clients.
//!
//! ```text
//! chat serve 127.0.0.1:7007
//! chat join 127.0.0.1:7007
//! ```

use std::io;

use smc_sockets::tokio::{SmcListener as TcpListener, SmcStream as TcpStream};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::broadcast::{self, error::RecvError};

#[tokio::main]
async fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", address] => serve(address).await,
        ["join", address] => join(address).await,
        _ => Err(io::Error::other("chat serve ADDRESS | chat join ADDRESS")),
    }
}

async fn serve(address: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    let (lines, _) = broadcast::channel(64);
    loop {
        let (stream, who) = listener.accept().await?;
        eprintln!("carried by {}", stream.carrier());
        let (sent, mut received) = (lines.clone(), lines.subscribe());
        let (reader, mut writer) = stream.into_split();
        // A client that has the greeting receives every line from here on.
        writer.write_all(b"welcome\n").await?;
        tokio::spawn(async move {
            let mut lines = BufReader::new(reader).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                // Fails only if no other client is connected.
                let _ = sent.send((who, line));
            }
        });
        tokio::spawn(async move {
            loop {
                match received.recv().await {
                    Ok((from, line)) if from != who => {
                        let line = format!("{line}\n");
                        if writer.write_all(line.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                    // Its own, or more than it could keep up with.
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        });
    }
}

async fn join(address: &str) -> io::Result<()> {
    let stream = TcpStream::connect(address).await?;
    eprintln!("carried by {}", stream.carrier());
    let (mut reader, mut writer) = stream.into_split();
    std::thread::spawn(move || -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        for line in io::stdin().lines() {
            let line = format!("{}\n", line?);
            runtime.block_on(writer.write_all(line.as_bytes()))?;
        }
        runtime.block_on(writer.shutdown())
    });
    tokio::io::copy(&mut reader, &mut tokio::io::stdout()).await?;
    Ok(())
}
