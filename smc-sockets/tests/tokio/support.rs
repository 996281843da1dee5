//! Pairs of streams, runtimes, and ways to run a future, which the tests here share.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use smc_sockets::Stack;
use smc_sockets::tokio::{SmcListener, SmcStream};

use crate::common::{many_descriptors, stack};

pub(crate) const LONG: Duration = Duration::from_secs(20);
pub(crate) const SHORT: Duration = Duration::from_millis(100);

/// Runs a scenario on a runtime with one thread, and on one with several.
macro_rules! on_both {
    ($($name:ident)*) => {$(
        mod $name {
            #[tokio::test]
            async fn current_thread() {
                tokio::time::timeout(3 * $crate::support::LONG, super::$name()).await.unwrap();
            }
            #[tokio::test(flavor = "multi_thread", worker_threads = 3)]
            async fn multi_thread() {
                tokio::time::timeout(3 * $crate::support::LONG, super::$name()).await.unwrap();
            }
        }
    )*};
}
pub(crate) use on_both;

pub(crate) async fn listener() -> (SmcListener, SocketAddr) {
    // Connections of one process have both their ends here.
    many_descriptors();
    let listener = SmcListener::bind_on(&stack(), "127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// What becomes of a future that is polled so often at most, and then given up.
pub(crate) async fn polled<F: Future>(times: u32, future: F) -> Option<F::Output> {
    let (mut future, mut left) = (pin!(future), times);
    std::future::poll_fn(|context| {
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

pub(crate) async fn pair() -> (SmcStream, SmcStream) {
    let (listener, address) = listener().await;
    let stack = stack();
    let connecting = SmcStream::connect_on(&stack, address);
    let (client, accepted) = tokio::join!(connecting, listener.accept());
    let (client, (server, from)) = (client.unwrap(), accepted.unwrap());
    assert_eq!(client.local_addr().unwrap(), from);
    for end in [&client, &server] {
        assert_eq!(end.carrier().to_string(), "SMC-D v2.1");
    }
    (client, server)
}

/// Both ends on stacks that other connections of this test use as well.
pub(crate) async fn pair_of_process() -> (SmcStream, SmcStream) {
    use std::sync::OnceLock;
    static STACKS: OnceLock<[Stack; 2]> = OnceLock::new();
    let [server, client] = STACKS.get_or_init(|| [(); 2].map(|()| stack()));
    let listener = SmcListener::bind_on(server, "127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (client, accepted) =
        tokio::join!(SmcStream::connect_on(client, address), listener.accept());
    (accepted.unwrap().0, client.unwrap())
}

/// A runtime that runs in a thread of its own until the test ends it.
pub(crate) struct Apart {
    pub(crate) handle: tokio::runtime::Handle,
    end: std::sync::mpsc::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Apart {
    pub(crate) fn begin() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let handle = runtime.handle().clone();
        let (end, ends) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                while ends.try_recv().is_err() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
        });
        Self {
            handle,
            end,
            thread,
        }
    }

    /// Ends it, its tasks with it.
    pub(crate) fn end(self) {
        self.end.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

/// Runs a future in this thread, which is not one of a runtime.
pub(crate) fn futures_block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
