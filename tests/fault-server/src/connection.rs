//! One connection, from its first request to its end.

use std::io;
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::control;
use crate::fault::{Act, Fault, script};
use crate::link::Pace;
use crate::request::{Operation, Request};
use crate::rule::Candidate;
use crate::server::Shared;
use crate::wire::{Player, Then, wait};

/// The longest head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// The longest body of a request, in bytes: rules as JSON are short, and so are the objects that clients
/// write.
const MAX_BODY_BYTES: usize = 64 << 20;

pub(crate) async fn serve(mut stream: TcpStream, number: u64, shared: Arc<Shared>) {
    shared.log.connected();
    let mut outages = shared.outage.subscribe();
    if outages.borrow().is_some() {
        let mut entry = shared.log.begin(number, Operation::Connect, "");
        entry.exchange.fault = Some(Fault::Reset);
    }
    let then = tokio::select! {
        biased;
        _ = outages.wait_for(Option::is_some) => Then::Reset,
        // The client went away, or a file became shorter: the connection ends in any case.
        then = converse(&mut stream, number, &shared) => then.unwrap_or(Then::Close),
    };
    if then == Then::Reset {
        let _ = stream.set_zero_linger();
    }
    drop(stream);
    shared.log.disconnected();
}

async fn converse(stream: &mut TcpStream, number: u64, shared: &Shared) -> io::Result<Then> {
    stream.set_nodelay(true)?;
    if greet(stream, number, shared).await? == Then::Reset {
        return Ok(Then::Reset);
    }
    let own_pace = shared.link.rate_per_connection.map(Pace::new);
    let (mut received, mut unsent) = (Vec::new(), Vec::new());
    let mut first = true;
    while let Some(request) = next(stream, &mut received).await? {
        let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let body = body(stream, &mut received, length).await?;
        let then = if request.is_control() {
            if first {
                shared.log.not_a_client();
            }
            let answer = control::answer(&request, &body, shared);
            let mut entry = shared.log.unlisted();
            let player = Player { stream, unsent: &mut unsent, paces: Vec::new(), flip: None };
            player.play(&answer, script(None, answer.sent_length()), &mut entry).await?
        } else {
            let paces = own_pace.iter().chain(&shared.pace).collect();
            let player = Player { stream, unsent: &mut unsent, paces, flip: None };
            exchange(player, &request, &body, number, shared).await?
        };
        first = false;
        let last = request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        if then != Then::Keep || last {
            return Ok(then);
        }
    }
    Ok(Then::Close)
}

/// Applies a fault that hits the connection before anything was requested.
async fn greet(stream: &TcpStream, number: u64, shared: &Shared) -> io::Result<Then> {
    let of = Candidate { operation: Operation::Connect, key: "", connection: number, answer: None };
    let Some(fault) = shared.rules.fault(&of) else { return Ok(Then::Keep) };
    let mut entry = shared.log.begin(number, Operation::Connect, "");
    entry.exchange.fault = Some(fault.clone());
    entry.show();
    match script(Some(&fault), 0).first() {
        Some(Act::Wait(lasting)) => wait(stream, *lasting).await.map(|()| Then::Keep),
        _ => Ok(Then::Reset),
    }
}

/// Answers one request to the store, or fails as a fault says.
async fn exchange(
    mut player: Player<'_>,
    request: &Request,
    body: &[u8],
    connection: u64,
    shared: &Shared,
) -> io::Result<Then> {
    let operation = request.operation();
    let key = match operation {
        Operation::List => request.parameter("prefix").unwrap_or_default(),
        _ => request.bucket_and_key().1.unwrap_or_default().into_owned(),
    };
    let mut entry = shared.log.begin(connection, operation, &key);
    let answer = shared.store.answer(request, body);
    let of = Candidate { operation, key: &key, connection, answer: Some(&answer) };
    let fault = shared.rules.fault(&of);
    entry.exchange.range = answer.content_range.as_ref().map(|(span, _)| span.clone());
    entry.exchange.if_match = request.header("if-match").map(String::from);
    entry.exchange.access_key_id = request.access_key_id().map(String::from);
    entry.exchange.fault = fault.clone();
    entry.show();

    if let Some(latency) = &shared.link.first_byte {
        let lasting = latency.draw(shared.seed, entry.exchange.number);
        wait(player.stream, Some(lasting)).await?;
    }
    let answer = match &fault {
        Some(fault) => fault.change(answer, request),
        None => answer,
    };
    player.flip = fault.as_ref().and_then(|fault| fault.flip(&answer));
    let script = script(fault.as_ref(), answer.sent_length());
    player.play(&answer, script, &mut entry).await
}

/// The next request; `None` when the client is done.
async fn next(stream: &mut TcpStream, received: &mut Vec<u8>) -> io::Result<Option<Request>> {
    loop {
        let parsed = Request::parse(received);
        if let Some((request, length)) = parsed.map_err(|error| invalid(&error.to_string()))? {
            received.drain(..length);
            return Ok(Some(request));
        }
        if received.len() > MAX_HEAD_BYTES {
            return Err(invalid("the head of the request is too long"));
        }
        if stream.read_buf(received).await? == 0 {
            return Ok(None);
        }
    }
}

async fn body(stream: &mut TcpStream, received: &mut Vec<u8>, length: usize) -> io::Result<Vec<u8>> {
    if length > MAX_BODY_BYTES {
        return Err(invalid("the body of the request is too long"));
    }
    while received.len() < length {
        if stream.read_buf(received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(received.drain(..length).collect())
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
