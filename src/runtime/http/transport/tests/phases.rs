//! What each phase is, against servers whose delays are known.

use super::*;

const DELAY: Duration = Duration::from_millis(40);
/// What no phase without a delay comes near to, however busy the machine is, and every one with a delay does.
const CLEARLY: Duration = Duration::from_millis(30);

/// The phases that took long enough to be seen, and a check that all of them add up to the duration.
fn long(times: &PhaseTimes) -> Vec<HttpPhase> {
    let [sending, waiting, receiving] =
        [HttpPhase::Sending, HttpPhase::Waiting, HttpPhase::Receiving].map(|phase| times.get(phase));
    assert_eq!(times.duration(), sending + waiting + receiving);
    HttpPhase::ALL.into_iter().filter(|phase| times.get(*phase) >= CLEARLY).collect()
}

#[tokio::test]
async fn a_kept_connection_has_no_phase_before_sending() {
    let server = Server::start(ok).await;
    let transport = Transport::default();
    let outgoing = server.request(Method::GET, "/");
    let before = [HttpPhase::Blocked, HttpPhase::Dns, HttpPhase::Connecting, HttpPhase::Tls];
    let (_, first, _) = transport.timed(&outgoing).await;
    assert!(!first.get(HttpPhase::Connecting).is_zero(), "{first:?}");
    assert!(first.get(HttpPhase::Dns).is_zero() && first.get(HttpPhase::Tls).is_zero(), "{first:?}");
    let (_, second, _) = transport.timed(&outgoing).await;
    assert!(before.iter().all(|phase| second.get(*phase).is_zero()), "{second:?}");
    let after = [HttpPhase::Sending, HttpPhase::Waiting, HttpPhase::Receiving];
    assert!(after.iter().all(|phase| !second.get(*phase).is_zero()), "{second:?}");
}

#[tokio::test]
async fn a_name_is_looked_up_and_an_address_is_not() {
    let server = Server::start(ok).await;
    let outgoing = request_to(Method::GET, &format!("http://localhost:{}/", server.address.port()));
    let (ended, times, _) = Transport::default().timed(&outgoing).await;
    assert_eq!(ended.unwrap().status, 200);
    assert!(!times.get(HttpPhase::Dns).is_zero(), "{times:?}");
}

/// Answers one request after `head`, and the second half of the body after `body` more.
async fn slow_server(head: Duration, body: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await.unwrap();
        tokio::time::sleep(head).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nha").await.unwrap();
        tokio::time::sleep(body).await;
        stream.write_all(b"lf").await.unwrap();
        stream.shutdown().await.unwrap();
    });
    address
}

#[tokio::test]
async fn the_time_to_the_first_byte_is_waiting_and_from_there_to_the_last_receiving() {
    for (head, body, phase) in
        [(DELAY, Duration::ZERO, HttpPhase::Waiting), (Duration::ZERO, DELAY, HttpPhase::Receiving)]
    {
        let outgoing = request_to(Method::GET, &format!("http://{}/", slow_server(head, body).await));
        let (ended, times, _) = Transport::default().timed(&outgoing).await;
        assert_eq!(&*ended.unwrap().body, b"half");
        assert_eq!(long(&times), [phase], "{times:?}");
        assert!(times.get(phase) >= DELAY.saturating_sub(Duration::from_millis(2)), "{times:?}");
    }
}

#[tokio::test]
async fn a_body_that_the_server_is_slow_to_read_is_sending() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut outgoing = request_to(Method::POST, &format!("http://{}/", listener.local_addr().unwrap()));
    // More than the buffers between hold.
    outgoing.body = vec![b'x'; 32 << 20].into();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::time::sleep(DELAY).await;
        read_request(&mut stream).await.unwrap();
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
    });
    let (ended, times, _) = Transport::default().timed(&outgoing).await;
    assert_eq!(ended.unwrap().status, 204);
    assert!(times.get(HttpPhase::Sending) >= CLEARLY, "{times:?}");
}

#[tokio::test]
async fn an_answer_that_comes_before_the_body_is_sent_ends_the_sending() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut outgoing = request_to(Method::POST, &format!("http://{}/", listener.local_addr().unwrap()));
    outgoing.body = vec![b'x'; 32 << 20].into();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        stream.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno").await.unwrap();
        tokio::time::sleep(DELAY).await;
    });
    let (ended, times, _) = Transport::default().timed(&outgoing).await;
    assert_eq!(ended.unwrap().status, 413);
    assert!(times.get(HttpPhase::Waiting).is_zero(), "{times:?}");
}

#[tokio::test]
async fn a_slow_handshake_is_tls_and_no_part_of_the_duration() {
    let (address, trust) = slow_to_shake_hands(false, DELAY).await;
    let outgoing = request_to(Method::GET, &format!("https://{address}/slow"));
    let transport = trusting(trust);
    let (ended, times, _) = transport.timed(&outgoing).await;
    assert_eq!(&*ended.unwrap().body, b"/slow");
    assert_eq!(long(&times), [HttpPhase::Tls], "{times:?}");
    let (_, again, _) = transport.timed(&outgoing).await;
    assert_eq!(again.get(HttpPhase::Tls), Duration::ZERO);
}

#[tokio::test]
async fn a_request_that_was_never_sent_has_no_duration() {
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (ended, times, _) =
        Transport::default().timed(&request_to(Method::GET, &format!("http://{unused}/"))).await;
    assert_eq!(ended.unwrap_err().class(), "connect_refused");
    assert_eq!((times.duration(), times.last), (Duration::ZERO, HttpPhase::Connecting));
    assert!(!times.get(HttpPhase::Connecting).is_zero(), "{times:?}");
}

/// Cuts the request off after a while; what was seen of it.
async fn cut_off(transport: &Transport, outgoing: &Outgoing) -> PhaseTimes {
    let (mut progress, began) = (Progress::default(), clock::now());
    let cut = tokio::time::timeout(DELAY, transport.exchange(outgoing, &mut progress)).await;
    assert!(cut.is_err());
    progress.phases(began, clock::now())
}

#[track_caller]
fn assert_cut_off_in(phase: HttpPhase, times: &PhaseTimes) {
    assert_eq!((long(times), times.last), (vec![phase], phase), "{times:?}");
}

#[tokio::test]
async fn a_request_that_is_cut_off_once_it_was_sent_has_waited() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let outgoing = request_to(Method::GET, &format!("http://{}/", listener.local_addr().unwrap()));
    // The system accepts, and nobody answers.
    for version in [HttpVersion::Http1, HttpVersion::Http2PriorKnowledge] {
        let transport = connecting(HttpSettings { version: Some(version), ..HttpSettings::default() });
        assert_cut_off_in(HttpPhase::Waiting, &cut_off(&transport, &outgoing).await);
    }
}

#[tokio::test]
async fn a_request_that_is_cut_off_while_its_body_goes_out_or_the_answer_comes_in_is_in_that_phase() {
    let address = slow_server(Duration::ZERO, Duration::from_secs(60)).await;
    let outgoing = request_to(Method::GET, &format!("http://{address}/"));
    assert_cut_off_in(HttpPhase::Receiving, &cut_off(&Transport::default(), &outgoing).await);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut outgoing = request_to(Method::POST, &format!("http://{}/", listener.local_addr().unwrap()));
    // In pieces, of which the buffers between hold the first ones.
    let piece = Bytes::from(vec![b'x'; 64 << 10]);
    outgoing.body = Payload::of_pieces(vec![piece; 512]);
    for version in [HttpVersion::Http1, HttpVersion::Http2PriorKnowledge] {
        let transport = connecting(HttpSettings { version: Some(version), ..HttpSettings::default() });
        assert_cut_off_in(HttpPhase::Sending, &cut_off(&transport, &outgoing).await);
    }
}

#[tokio::test]
async fn a_handshake_that_the_server_does_not_take_part_in_is_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let outgoing = request_to(Method::GET, &format!("https://{}/", listener.local_addr().unwrap()));
    let transport = connecting(HttpSettings { insecure: Some(true), ..HttpSettings::default() });
    assert_cut_off_in(HttpPhase::Tls, &cut_off(&transport, &outgoing).await);
    let transport = connecting(HttpSettings {
        insecure: Some(true),
        connect_timeout: Some(DELAY),
        ..HttpSettings::default()
    });
    let (ended, times, _) = transport.timed(&outgoing).await;
    assert_eq!(ended.unwrap_err().class(), "connect_timeout");
    assert_cut_off_in(HttpPhase::Tls, &times);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn connecting_to_a_server_that_does_not_accept_is_connecting() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // Once so many wait to be accepted, the system answers nobody any more.
    let mut waiting = Vec::new();
    for _ in 0..8 {
        match tokio::time::timeout(Duration::from_millis(500), TcpStream::connect(address)).await {
            Ok(stream) => waiting.push(stream.unwrap()),
            Err(_) => break,
        }
    }
    let outgoing = request_to(Method::GET, &format!("http://{address}/"));
    assert_cut_off_in(HttpPhase::Connecting, &cut_off(&Transport::default(), &outgoing).await);
    let transport = connecting(HttpSettings { connect_timeout: Some(DELAY), ..HttpSettings::default() });
    let (ended, times, _) = transport.timed(&outgoing).await;
    assert_eq!(ended.unwrap_err().class(), "connect_timeout");
    assert_cut_off_in(HttpPhase::Connecting, &times);
}

/// How long a lookup takes is the system's resolver's affair, which no test can stop.
#[tokio::test]
async fn a_name_that_has_no_address_ends_in_the_lookup() {
    let (ended, times, _) =
        Transport::default().timed(&request_to(Method::GET, "http://nowhere.invalid/")).await;
    assert_eq!((ended.unwrap_err().class(), times.last), ("dns", HttpPhase::Dns));
    assert!(!times.get(HttpPhase::Dns).is_zero() && times.get(HttpPhase::Connecting).is_zero(), "{times:?}");
}
