//! What is sent again, and what never is.

use super::*;

/// Answers the first request of a connection, then reads `more` bytes, if any, and closes it. With a connection that is
/// reset, where what was sent is not all read.
async fn closing_server(more: usize) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let serve = move |mut stream: TcpStream, _| {
        let noted = noted.clone();
        async move {
            let Some((head, _)) = read_request(&mut stream).await else { return };
            noted.lock().unwrap().push(head.lines().next().unwrap().to_owned());
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
            let mut half = vec![0; more];
            if more > 0 && stream.read_exact(&mut half).await.is_ok() {
                noted.lock().unwrap().push("half".into());
            }
        }
    };
    (each_connection(serve).await.0, seen)
}

#[tokio::test]
async fn what_changes_nothing_is_sent_again_on_a_new_connection_and_it_is_told() {
    let (address, seen) = closing_server(10).await;
    let transport = Transport::default();
    for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
        let outgoing = request_to(method, &format!("http://{address}/"));
        transport.send(&request_to(Method::GET, &format!("http://{address}/first"))).await.unwrap();
        let (ended, times, retries) = transport.timed(&outgoing).await;
        assert_eq!((ended.unwrap().status.as_u16(), retries), (200, 1), "{}", outgoing.method);
        assert!(!times.get(HttpPhase::Blocked).is_zero(), "the attempt that failed: {times:?}");
        assert!(!times.get(HttpPhase::Connecting).is_zero(), "{times:?}");
        // The connection that answered is of no use to the next round.
        transport.pool.clear();
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen.iter().filter(|line| *line == "half").count(), 3, "{seen:?}");
}

#[tokio::test]
async fn what_may_have_been_received_and_changes_something_is_not_sent_again() {
    let (address, seen) = closing_server(10).await;
    let transport = Transport::default();
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        transport.send(&request_to(Method::GET, &format!("http://{address}/first"))).await.unwrap();
        let mut outgoing = request_to(method, &format!("http://{address}/"));
        outgoing.body = "something".into();
        let (ended, _, retries) = transport.timed(&outgoing).await;
        assert_eq!((ended.unwrap_err().class(), retries), ("reset", 0), "{}", outgoing.method);
    }
    let seen = seen.lock().unwrap();
    assert_eq!(*seen, ["get /first http/1.1", "half"].repeat(4));
}

#[tokio::test]
async fn a_new_connection_that_is_closed_at_once_is_an_error_whatever_was_asked() {
    let (address, accepted) = each_connection(async |stream, _| drop(stream)).await;
    for method in [Method::GET, Method::POST] {
        let (ended, _, retries) =
            Transport::default().timed(&request_to(method, &format!("http://{address}/"))).await;
        assert_eq!((ended.unwrap_err().class(), retries), ("reset", 0));
    }
    assert_eq!(accepted.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_asked_for_again() {
    let server = Server::start(|seen| match seen.line() {
        "get /first http/1.1" => ok(seen),
        _ => (b"HTTP/1.1 200 OK\r\ncontent-le".to_vec(), false),
    })
    .await;
    let transport = Transport::default();
    transport.send(&server.request(Method::GET, "/first")).await.unwrap();
    let (ended, _, retries) = transport.timed(&server.request(Method::GET, "/")).await;
    assert_eq!((ended.unwrap_err().class(), retries), ("reset", 0));
    assert_eq!(server.connections(), [0, 0]);
}
