//! Halves of a stream.

use std::error::Error;
use std::fmt;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::SmcStream;

/// The half to read from, of [`SmcStream::split`].
#[derive(Debug)]
pub struct ReadHalf<'a>(pub(super) &'a SmcStream);

/// The half to write to, of [`SmcStream::split`].
#[derive(Debug)]
pub struct WriteHalf<'a>(pub(super) &'a SmcStream);

/// The half to read from, of [`SmcStream::into_split`].
#[derive(Debug)]
pub struct OwnedReadHalf(pub(super) Arc<SmcStream>);

/// The half to write to, of [`SmcStream::into_split`]. Dropping it ends the direction to
/// the peer.
#[derive(Debug)]
pub struct OwnedWriteHalf {
    stream: Arc<SmcStream>,
    shuts: bool,
}

impl OwnedWriteHalf {
    pub(super) fn new(stream: Arc<SmcStream>) -> Self {
        Self {
            stream,
            shuts: true,
        }
    }

    /// Drops it without ending the direction to the peer.
    pub fn forget(mut self) {
        self.shuts = false;
    }

    /// The stream again.
    ///
    /// # Errors
    /// The halves, if they are of different streams.
    pub fn reunite(self, other: OwnedReadHalf) -> Result<SmcStream, ReuniteError> {
        other.reunite(self)
    }
}

impl OwnedReadHalf {
    /// The stream again.
    ///
    /// # Errors
    /// The halves, if they are of different streams.
    pub fn reunite(self, other: OwnedWriteHalf) -> Result<SmcStream, ReuniteError> {
        if !Arc::ptr_eq(&self.0, &other.stream) {
            return Err(ReuniteError(self, other));
        }
        other.forget();
        // There are two halves of a stream, and one of them is gone.
        Arc::try_unwrap(self.0).map_err(|stream| {
            let writer = OwnedWriteHalf::new(stream.clone());
            ReuniteError(Self(stream), writer)
        })
    }
}

/// Halves that do not belong together.
#[derive(Debug)]
pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

impl fmt::Display for ReuniteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these are halves of different streams")
    }
}

impl Error for ReuniteError {}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        if self.shuts {
            // It may have ended already.
            let _ = self.stream.shutdown_std(Shutdown::Write);
        }
    }
}

macro_rules! half {
    (read $half:ty, $self:ident => $stream:expr) => {
        impl AsRef<SmcStream> for $half {
            fn as_ref(&$self) -> &SmcStream {
                $stream
            }
        }

        impl AsyncRead for $half {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                into: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                (*self).as_ref().poll_to_read(context, into)
            }
        }
    };
    (write $half:ty, $self:ident => $stream:expr) => {
        impl AsRef<SmcStream> for $half {
            fn as_ref(&$self) -> &SmcStream {
                $stream
            }
        }

        impl AsyncWrite for $half {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                octets: &[u8],
            ) -> Poll<io::Result<usize>> {
                (*self).as_ref().poll_to_write(context, &[IoSlice::new(octets)])
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                slices: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                (*self).as_ref().poll_to_write(context, slices)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                Poll::Ready((*self).as_ref().shutdown_std(Shutdown::Write))
            }
        }
    };
}

half!(read ReadHalf<'_>, self => self.0);
half!(read OwnedReadHalf, self => &self.0);
half!(write WriteHalf<'_>, self => self.0);
half!(write OwnedWriteHalf, self => &self.stream);
