//! An echo on std, with a thread for each client.
//!
//! ```text
//! echo serve 127.0.0.1:7007
//! echo ask 127.0.0.1:7007 some words
//! ```

use std::io::{self, Read, Write};
use std::net::Shutdown;

use smc_sockets::{SmcListener as TcpListener, SmcStream as TcpStream};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", address] => serve(address),
        ["ask", address, ref words @ ..] => ask(address, &words.join(" ")),
        _ => Err(io::Error::other(
            "echo serve ADDRESS | echo ask ADDRESS WORDS",
        )),
    }
}

fn serve(address: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || {
            eprintln!("carried by {}", stream.carrier());
            // A client that leaves early is no concern of others.
            let _ = io::copy(&mut &stream, &mut &stream);
        });
    }
    Ok(())
}

fn ask(address: &str, words: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    eprintln!("carried by {}", stream.carrier());
    stream.set_nodelay(true)?;
    stream.write_all(words.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    println!("{answer}");
    Ok(())
}
