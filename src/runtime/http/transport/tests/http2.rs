//! HTTP/2 against servers that keep to the letter of it: what they let happen beside each other, refuse, and take back.

use std::time::Duration;

use super::*;

const DELAY: Duration = Duration::from_millis(40);

fn knowing() -> Transport {
    connecting(HttpSettings { version: Some(HttpVersion::Http2PriorKnowledge), ..HttpSettings::default() })
}

/// What a scripted server does about a request: given the connection, the stream, and whether it is the first one there.
type Script = fn(u32, bool) -> Reaction;

struct Reaction {
    frames: Vec<u8>,
    closes: bool,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// `:status 200`, and the end.
fn answer(stream: u32) -> Vec<u8> {
    frame(1, 0b101, stream, &[0x88])
}

fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(3, 0, stream, &code.to_be_bytes())
}

fn go_away(last: u32, code: u32) -> Vec<u8> {
    frame(7, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

/// Speaks just enough HTTP/2 to react to requests; tells which streams came on which connection.
async fn scripted(script: Script) -> (SocketAddr, Arc<Mutex<Vec<(usize, u32)>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let react = move |stream, connection| react(stream, connection, script, noted.clone());
    (each_connection(react).await.0, seen)
}

async fn react(
    mut stream: TcpStream,
    connection: usize,
    script: Script,
    noted: Arc<Mutex<Vec<(usize, u32)>>>,
) -> Option<()> {
    stream.read_exact(&mut [0; 24]).await.ok()?;
    stream.write_all(&frame(4, 0, 0, &[])).await.ok()?;
    let mut requests = 0;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize]).await.ok()?;
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        if head[3] != 1 {
            continue;
        }
        noted.lock().unwrap().push((connection, id));
        let reaction = script(id, requests == 0);
        requests += 1;
        stream.write_all(&reaction.frames).await.ok()?;
        if reaction.closes {
            return None;
        }
    }
}

async fn post(transport: &Transport, address: SocketAddr) -> (Result<Received, TransportError>, u32) {
    let outgoing = Outgoing { body: "x".into(), ..request_to(Method::POST, &format!("http://{address}/")) };
    let (ended, _, retries) = transport.timed(&outgoing).await;
    (ended, retries)
}

#[tokio::test]
async fn what_a_server_that_goes_away_did_not_look_at_is_sent_on_a_new_connection() {
    let (address, seen) = scripted(|stream, is_first| Reaction {
        frames: if is_first { answer(stream) } else { go_away(stream - 2, 0) },
        closes: !is_first,
    })
    .await;
    let transport = knowing();
    for wanted in [0, 1] {
        let (ended, retries) = post(&transport, address).await;
        assert_eq!((ended.unwrap().status.as_u16(), retries), (200, wanted));
    }
    assert_eq!(*seen.lock().unwrap(), [(0, 1), (0, 3), (1, 1)]);
}

#[tokio::test]
async fn what_was_refused_is_sent_again_but_not_for_ever() {
    let (address, seen) = scripted(|stream, _| Reaction {
        frames: if stream == 5 { answer(stream) } else { reset(stream, 7) },
        closes: false,
    })
    .await;
    let (ended, retries) = post(&knowing(), address).await;
    assert_eq!((ended.unwrap().status.as_u16(), retries), (200, 2));
    assert_eq!(*seen.lock().unwrap(), [(0, 1), (0, 3), (0, 5)], "the connection is as good as before");

    let (address, seen) = scripted(|stream, _| Reaction { frames: reset(stream, 7), closes: false }).await;
    let (ended, retries) = post(&knowing(), address).await;
    assert_eq!((ended.unwrap_err().class(), retries), ("reset", MOST_RETRIES));
    assert_eq!(seen.lock().unwrap().len(), 1 + MOST_RETRIES as usize);
}

#[tokio::test]
async fn a_stream_that_is_reset_is_an_error_of_its_own_class_and_the_connection_goes_on() {
    let (address, seen) = scripted(|stream, is_first| Reaction {
        frames: if is_first { reset(stream, 2) } else { answer(stream) },
        closes: false,
    })
    .await;
    let transport = knowing();
    for ended in ["reset", "answered"] {
        let (response, retries) = post(&transport, address).await;
        assert_eq!((response.map_or_else(|error| error.class(), |_| "answered"), retries), (ended, 0));
    }
    assert_eq!(*seen.lock().unwrap(), [(0, 1), (0, 3)]);
}

#[tokio::test]
async fn a_server_that_breaks_the_protocol_is_told_from_one_that_hangs_up() {
    for (script, class) in [
        // Data where there was no head.
        ((|stream, _| Reaction { frames: frame(0, 0, stream, b"x"), closes: false }) as Script, "protocol"),
        (|_, _| Reaction { frames: Vec::new(), closes: true }, "reset"),
        (|stream, _| Reaction { frames: go_away(stream, 1), closes: true }, "reset"),
    ] {
        let (address, _) = scripted(script).await;
        let (ended, retries) = post(&knowing(), address).await;
        assert_eq!((ended.unwrap_err().class(), retries), (class, 0));
    }
}

#[tokio::test]
async fn a_kept_connection_that_breaks_is_made_anew_for_what_changes_nothing_alone() {
    let script: Script = |stream, is_first| Reaction {
        frames: if is_first { answer(stream) } else { Vec::new() },
        closes: !is_first,
    };
    for (method, wanted) in [(Method::GET, Ok(1)), (Method::POST, Err("reset"))] {
        let (address, seen) = scripted(script).await;
        let transport = knowing();
        let outgoing = request_to(method, &format!("http://{address}/"));
        transport.send(&outgoing).await.unwrap();
        let (ended, _, retries) = transport.timed(&outgoing).await;
        assert_eq!(ended.map(|_| retries).map_err(|error| error.class()), wanted);
        assert_eq!(seen.lock().unwrap().len(), if wanted.is_ok() { 3 } else { 2 });
    }
}

#[tokio::test]
async fn a_connection_that_goes_away_while_idle_is_replaced_and_that_is_no_retry() {
    let (address, seen) = scripted(|stream, _| Reaction {
        frames: [answer(stream), go_away(stream, 0)].concat(),
        closes: false,
    })
    .await;
    let transport = knowing();
    for _ in 0..2 {
        let (ended, retries) = post(&transport, address).await;
        assert_eq!((ended.unwrap().status.as_u16(), retries), (200, 0));
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(*seen.lock().unwrap(), [(0, 1), (1, 1)]);
}

/// A server of hyper's that answers `DELAY` after a request, with its body, and lets `streams` be at a time.
async fn limited(streams: u32) -> (SocketAddr, Arc<AtomicUsize>) {
    each_connection(move |stream, _| async move {
        let late = service_fn(async |request: http::Request<Incoming>| {
            let (head, body) = request.into_parts();
            let body = http_body_util::BodyExt::collect(body).await?.to_bytes();
            tokio::time::sleep(DELAY).await;
            let said = http::Response::builder()
                .header("x-host", head.uri.authority().map_or("none", |it| it.as_str()))
                .header("x-connection", format!("{:?}", head.headers.get("connection")));
            Ok::<_, hyper::Error>(said.body(Full::new(body)).unwrap())
        });
        let mut server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        server.max_concurrent_streams(streams);
        // A client that goes away is no error here.
        let _ = server.serve_connection(TokioIo::new(stream), late).await;
    })
    .await
}

#[tokio::test]
async fn beyond_as_many_streams_as_the_server_allows_a_request_is_blocked() {
    let (address, accepted) = limited(1).await;
    let transport = knowing();
    let outgoing = request_to(Method::GET, &format!("http://{address}/"));
    // By its end the server's limit is known.
    transport.send(&outgoing).await.unwrap();
    let (one, other) = tokio::join!(transport.timed(&outgoing), transport.timed(&outgoing));
    let shortest = DELAY.saturating_sub(Duration::from_millis(2));
    for (ended, times, retries) in [&one, &other] {
        assert_eq!((ended.as_ref().unwrap().version, *retries), (Version::HTTP_2, 0));
        assert!(times.get(HttpPhase::Waiting) >= shortest, "{times:?}");
    }
    let blocked = [one.1, other.1].map(|times| times.get(HttpPhase::Blocked));
    assert!(blocked[1] >= shortest, "{blocked:?}");
    assert!(blocked[0] < blocked[1], "{blocked:?}");
    // The second is cut off before the first one's stream ends.
    let (mut progress, began) = (Progress::default(), clock::now());
    let cut = tokio::time::timeout(DELAY / 2, transport.exchange(&outgoing, &mut progress));
    let (_, cut) = tokio::join!(transport.timed(&outgoing), cut);
    assert!(cut.is_err() && !progress.was_handed());
    assert_eq!(progress.phases(began, clock::now()).last, HttpPhase::Blocked);
    assert_eq!(accepted.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn requests_beside_each_other_share_the_one_connection_that_is_made() {
    let (address, accepted) = limited(100).await;
    let transport = knowing();
    let outgoing = request_to(Method::GET, &format!("http://{address}/"));
    let ended =
        tokio::join!(transport.timed(&outgoing), transport.timed(&outgoing), transport.timed(&outgoing));
    for (ended, times, _) in [ended.0, ended.1, ended.2] {
        assert!(ended.is_ok(), "{times:?}");
    }
    assert_eq!(accepted.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn who_waits_for_another_request_to_connect_is_blocked() {
    let (address, _) = slow_to_shake_hands(true, DELAY).await;
    let outgoing = request_to(Method::GET, &format!("https://{address}/"));
    let transport = connecting(HttpSettings {
        version: Some(HttpVersion::Http2PriorKnowledge),
        insecure: Some(true),
        ..HttpSettings::default()
    });
    let (one, other) = tokio::join!(transport.timed(&outgoing), transport.timed(&outgoing));
    let shortest = DELAY.saturating_sub(Duration::from_millis(2));
    assert!(one.0.is_ok() && one.1.get(HttpPhase::Tls) >= shortest, "{:?}", one.1);
    assert!(other.0.is_ok() && other.1.get(HttpPhase::Blocked) >= shortest, "{:?}", other.1);
    assert!(other.1.get(HttpPhase::Tls).is_zero() && other.1.get(HttpPhase::Connecting).is_zero());
}

#[tokio::test]
async fn bodies_longer_than_any_window_go_both_ways_and_no_header_of_the_connection_does() {
    let (address, _) = limited(100).await;
    let mut outgoing = request_to(Method::POST, &format!("http://{address}/"));
    let body: Bytes = (0..9_000_000_u32).map(|n| n as u8).collect::<Vec<_>>().into();
    outgoing.body =
        Payload::of_pieces(vec![body.slice(..7), body.slice(7..4_000_000), body.slice(4_000_000..)]);
    outgoing.headers.insert("connection", HeaderValue::from_static("keep-alive"));
    outgoing.headers.insert(HOST, HeaderValue::from_static("shop.example"));
    let received = knowing().send(&outgoing).await.unwrap();
    assert!(received.body == body, "{} bytes", received.body.len());
    assert_eq!(
        (&received.headers["x-host"], &received.headers["x-connection"]),
        (&HeaderValue::from_static("shop.example"), &HeaderValue::from_static("None"))
    );
}

#[tokio::test]
async fn a_header_that_http2_does_not_have_is_told_without_another_connection() {
    let (address, accepted) = limited(100).await;
    let transport = knowing();
    let plain = request_to(Method::GET, &format!("http://{address}/"));
    let mut outgoing = request_to(Method::GET, &format!("http://{address}/"));
    outgoing.headers.insert("te", HeaderValue::from_static("gzip"));
    transport.send(&plain).await.unwrap();
    let (ended, _, retries) = transport.timed(&outgoing).await;
    let error = ended.unwrap_err();
    assert_eq!((error.class(), retries), ("protocol", 0));
    assert_eq!(error.to_string(), "the request cannot be sent over HTTP/2");
    assert_eq!(transport.send(&plain).await.unwrap().status, 200);
    assert_eq!(accepted.load(Ordering::Relaxed), 1);
}
