//! TCP with a [`Ledger`] beside it, which records from outside what the library exchanges.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lockkeeper_core::BoxFuture;
use lockkeeper_zookeeper::{Dial, Server, Stream, TcpDial};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::ledger::{Ledger, now};

/// Dials TCP and records every byte.
#[derive(Debug)]
pub(crate) struct TappedDial(pub(crate) Ledger);

impl Dial for TappedDial {
    fn dial(&self, server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let (dialling, ledger) = (TcpDial.dial(server), self.0.clone());
        Box::pin(async move {
            let inner = dialling.await?;
            ledger.connected();
            Ok(Box::new(Tapped { inner, ledger }) as Box<dyn Stream>)
        })
    }
}

struct Tapped {
    inner: Box<dyn Stream>,
    ledger: Ledger,
}

impl AsyncRead for Tapped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.inner).poll_read(context, buffer));
        self.ledger.received(now(), &buffer.filled()[before..]);
        Poll::Ready(read)
    }
}

impl AsyncWrite for Tapped {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let sent_at = now();
        let written = ready!(Pin::new(&mut self.inner).poll_write(context, bytes));
        if let Ok(count) = written {
            self.ledger.sent(sent_at, &bytes[..count]);
        }
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
