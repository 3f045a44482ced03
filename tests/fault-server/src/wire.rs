//! Plays a script on a socket.

use std::future::pending;
use std::io::{self, Write};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::answer::Answer;
use crate::fault::Act;
use crate::link::{LARGEST_SLICE, Pace};
use crate::log::Open;

/// How many bytes are passed to the socket at a time if no rate limits it. They fit the second-level cache of
/// a core, which makes it fast to copy them from the page cache of the system to the socket.
const SLICE: u64 = 256 << 10;
/// The wait before a reset, in which sent bytes can arrive: a reset discards the bytes still in the socket.
const SETTLE: Duration = Duration::from_millis(20);

/// The next state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Keep,
    Close,
    Reset,
}

pub(crate) struct Player<'a> {
    pub(crate) stream: &'a mut TcpStream,
    /// The bytes that are not sent yet; kept between answers to reuse their memory.
    pub(crate) unsent: &'a mut Vec<u8>,
    pub(crate) paces: Vec<&'a Pace>,
    /// The bit of the body to flip: the offset of its byte, and a mask.
    pub(crate) flip: Option<(u64, u8)>,
}

impl Player<'_> {
    /// Sends `answer` as `script` says, and keeps `entry` up to date.
    pub(crate) async fn play(
        mut self,
        answer: &Answer,
        script: Vec<Act>,
        entry: &mut Open<'_>,
    ) -> io::Result<Then> {
        let mut slower = None;
        for act in script {
            match act {
                Act::Wait(lasting) => {
                    self.flush().await?;
                    entry.show();
                    wait(self.stream, lasting).await?;
                }
                Act::Slow(rate) => slower = Some(Pace::new(rate)),
                Act::Head(framing) => {
                    self.unsent.extend(answer.head(framing, entry.exchange.number));
                    entry.exchange.status = Some(answer.status);
                    // The log is written before anything is sent, so that a client that has
                    // an answer finds the exchange in the log.
                    entry.show();
                }
                Act::Body(span) => {
                    self.body(answer, span, false, slower.as_ref(), entry).await?;
                }
                Act::Chunks(span) => {
                    self.body(answer, span, true, slower.as_ref(), entry).await?;
                }
                Act::LastChunk => self.unsent.extend(b"0\r\n\r\n"),
                Act::Reset => {
                    if !self.unsent.is_empty() || entry.exchange.status.is_some() {
                        self.flush().await?;
                        sleep(SETTLE).await;
                    }
                    return Ok(Then::Reset);
                }
                Act::Close => {
                    self.flush().await?;
                    return Ok(Then::Close);
                }
            }
        }
        self.flush().await?;
        Ok(Then::Keep)
    }

    async fn body(
        &mut self,
        answer: &Answer,
        span: std::ops::Range<u64>,
        chunked: bool,
        slower: Option<&Pace>,
        entry: &mut Open<'_>,
    ) -> io::Result<()> {
        let paces: Vec<&Pace> = self.paces.iter().copied().chain(slower).collect();
        let slice = paces.iter().map(|pace| pace.slice().min(LARGEST_SLICE)).min().unwrap_or(SLICE);
        let mut offset = span.start;
        while offset < span.end && !answer.head_only {
            let bytes = slice.min(span.end - offset);
            for pace in &paces {
                pace.take(bytes).await;
            }
            if chunked {
                write!(self.unsent, "{bytes:x}\r\n")?;
            }
            let start = self.unsent.len();
            self.unsent.resize(start + bytes as usize, 0);
            answer.body.read(offset, &mut self.unsent[start..])?;
            if let Some((at, mask)) = self.flip
                && (offset..offset + bytes).contains(&at)
            {
                self.unsent[start + (at - offset) as usize] ^= mask;
            }
            if chunked {
                self.unsent.extend(b"\r\n");
            }
            self.flush().await?;
            offset += bytes;
            entry.sent(bytes);
        }
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(self.unsent).await?;
        self.unsent.clear();
        Ok(())
    }
}

/// Returns after the given time, or never for `None`. Fails as soon as the client goes away.
pub(crate) async fn wait(stream: &TcpStream, lasting: Option<Duration>) -> io::Result<()> {
    let over = async {
        match lasting {
            Some(lasting) => sleep(lasting).await,
            None => pending().await,
        }
    };
    let left = async {
        match stream.peek(&mut [0]).await {
            Ok(0) => io::ErrorKind::UnexpectedEof.into(),
            // The next request has come early, so the client is still there.
            Ok(_) => pending().await,
            Err(error) => error,
        }
    };
    tokio::select! {
        () = over => Ok(()),
        error = left => Err(error),
    }
}
