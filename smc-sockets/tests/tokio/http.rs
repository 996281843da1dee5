//! axum serves and hyper-util's client asks, over shared memory.

use crate::common::stack;
use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use http_body_util::{BodyExt, Empty};
use hyper::Uri;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use smc_sockets::tokio::{SmcConnector, SmcListener};

#[tokio::test]
async fn pages_of_axum_are_fetched_by_hyper() {
    let numbers = |Path(count): Path<usize>| async move {
        (0..count)
            .map(|number| format!("{number}\n"))
            .collect::<String>()
    };
    let router = Router::new().route("/numbers/{count}", get(numbers));
    let listener = SmcListener::bind_on(&stack(), "127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });

    let connector = SmcConnector::on(&stack());
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
    for count in [3, 0, 100_000] {
        let page: Uri = format!("http://{address}/numbers/{count}").parse().unwrap();
        let answer = client.get(page).await.unwrap();
        assert_eq!(answer.status(), 200);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let expected: String = (0..count).map(|number| format!("{number}\n")).collect();
        assert!(body == expected.as_bytes());
    }
    let secure: Uri = format!("https://{address}/").parse().unwrap();
    let refused = client.get(secure).await.unwrap_err();
    assert!(refused.is_connect(), "{refused}");
}
