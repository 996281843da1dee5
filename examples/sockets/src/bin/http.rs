//! An HTTP server on hyper, and a client.
//!
//! ```text
//! http serve 127.0.0.1:8080
//! http get 127.0.0.1:8080 /numbers/1000
//! http post 127.0.0.1:8080 /upper some words
//! ```

use std::convert::Infallible;
use std::error::Error;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use smc_sockets::tokio::{SmcListener as TcpListener, SmcStream as TcpStream};

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", address] => serve(address).await,
        ["get", address, path] => ask(address, Method::GET, path, "").await,
        ["post", address, path, ref words @ ..] => {
            ask(address, Method::POST, path, &words.join(" ")).await
        }
        _ => {
            Err("http serve ADDRESS | http get ADDRESS PATH | http post ADDRESS PATH WORDS".into())
        }
    }
}

async fn serve(address: &str) -> Result<(), Failure> {
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        eprintln!("carried by {}", stream.carrier());
        tokio::spawn(async move {
            let serving = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service_fn(answer));
            if let Err(error) = serving.await {
                eprintln!("connection: {error}");
            }
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = match (
        request.method(),
        path.split('/').collect::<Vec<_>>().as_slice(),
    ) {
        (&Method::GET, ["", "numbers", count]) => count.parse().ok().map(numbers),
        (&Method::POST, ["", "upper"]) => {
            let body = request.into_body().collect().await;
            let text = body.ok().map(http_body_util::Collected::to_bytes);
            text.map(|text| String::from_utf8_lossy(&text).to_uppercase())
        }
        _ => None,
    };
    let found = body.is_some();
    let mut response = Response::new(Full::new(Bytes::from(body.unwrap_or_default())));
    if !found {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    Ok(response)
}

/// The numbers below this one, a line each; there is an end to them.
fn numbers(count: u32) -> String {
    (0..count.min(1_000_000))
        .map(|number| format!("{number}\n"))
        .collect()
}

async fn ask(address: &str, method: Method, path: &str, body: &str) -> Result<(), Failure> {
    let stream = TcpStream::connect(address).await?;
    eprintln!("carried by {}", stream.carrier());
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(hyper::header::HOST, address)
        .body(Full::new(Bytes::from(body.to_owned())))?;
    let response = sender.send_request(request).await?;
    println!("{}", response.status());
    print!(
        "{}",
        String::from_utf8(response.into_body().collect().await?.to_bytes().to_vec())?
    );
    Ok(())
}
