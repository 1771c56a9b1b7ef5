//! One request and its response, in every form that they have.

use super::*;

#[tokio::test]
async fn a_request_has_the_usual_headers_and_the_authors_stand_in_for_them() {
    let server = Server::start(ok).await;
    let transport = Transport::default();
    transport.send(&server.request(Method::GET, "/a?b=%20c#d")).await.unwrap();
    transport.send(&server.request(Method::POST, "/")).await.unwrap();
    let mut outgoing = request_to(Method::PUT, &format!("http://me:p%40ss@{}/", server.address));
    outgoing.headers.insert(USER_AGENT, HeaderValue::from_static("mine"));
    outgoing.body = "body".into();
    transport.send(&outgoing).await.unwrap();
    let seen = server.seen();
    let (host, agent) = (format!("host: {}\r\n", server.address), format!("user-agent: {AGENT}\r\n"));
    assert_eq!(
        seen[0].head,
        format!("get /a?b=%20c http/1.1\r\n{host}{agent}accept: */*\r\n\r\n"),
        "neither fragment nor content-length"
    );
    assert!(seen[1].head.contains("content-length: 0\r\n"), "{}", seen[1].head);
    for part in [&host, "user-agent: mine\r\n", "authorization: basic bwu6cebzcw==\r\n", "content-length: 4"]
    {
        assert!(seen[2].head.contains(part), "{part} in {}", seen[2].head);
    }
    assert_eq!(seen[2].body, "body");
}

#[tokio::test]
async fn a_connection_is_used_again_and_requests_beside_each_other_have_their_own() {
    let server = Server::start(ok).await;
    let transport = Transport::default();
    for _ in 0..3 {
        transport.send(&server.request(Method::GET, "/")).await.unwrap();
    }
    assert_eq!(server.connections(), [0, 0, 0]);
    let request = async || transport.send(&server.request(Method::GET, "/")).await;
    let (one, other) = tokio::join!(request(), request());
    assert!(one.is_ok() && other.is_ok());
    transport.send(&server.request(Method::GET, "/")).await.unwrap();
    let mut used = server.connections();
    used.sort_unstable();
    used.dedup();
    assert_eq!(used, [0, 1]);
}

#[tokio::test]
async fn a_connection_closed_while_idle_is_replaced_and_no_post_is_repeated() {
    for closing in [
        |_: &Seen| (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec(), false),
        |_: &Seen| (b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_vec(), false),
        |_: &Seen| (b"HTTP/1.1 200 OK\r\n\r\nuntil the end".to_vec(), false),
    ] {
        let server = Server::start(closing).await;
        let transport = Transport::default();
        for n in 0..5 {
            let outgoing = Outgoing { body: n.to_string().into(), ..server.request(Method::POST, "/") };
            transport.send(&outgoing).await.unwrap();
            // The end of the connection arrives meanwhile.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        }
        let bodies: Vec<_> = server.seen().into_iter().map(|seen| seen.body).collect();
        assert_eq!(bodies, ["0", "1", "2", "3", "4"]);
    }
}

#[tokio::test]
async fn a_request_that_was_written_is_not_sent_again() {
    let server = Server::start(|seen| if seen.body == "lost" { (Vec::new(), false) } else { ok(seen) }).await;
    let transport = Transport::default();
    transport.send(&server.request(Method::GET, "/")).await.unwrap();
    let outgoing = Outgoing { body: "lost".into(), ..server.request(Method::POST, "/") };
    let error = transport.send(&outgoing).await.unwrap_err();
    assert_eq!(error.class(), "reset", "{error:?}");
    let bodies: Vec<_> = server.seen().into_iter().map(|seen| seen.body).collect();
    assert_eq!(bodies, ["", "lost"]);
}

#[tokio::test]
async fn every_framing_of_a_body_is_read_to_its_end() {
    let big = "x".repeat(3_000_000);
    let server = Server::start(|seen| {
        let bytes = match seen.line().split_whitespace().nth(1).unwrap() {
            "/none" => "HTTP/1.1 204 No Content\r\n\r\n".into(),
            "/unmodified" => "HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n".into(),
            "/head" => "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n".into(),
            "/empty" => "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".into(),
            "/chunked" => {
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nt: 1\r\n\r\n".into()
            }
            "/continue" => {
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlast".into()
            }
            "/big" => format!("HTTP/1.1 200 OK\r\ncontent-length: 3000000\r\n\r\n{}", "x".repeat(3_000_000)),
            other => panic!("{other}"),
        };
        (bytes.into_bytes(), true)
    })
    .await;
    let transport = Transport::default();
    for (method, target, status, body) in [
        (Method::GET, "/none", 204, ""),
        (Method::GET, "/unmodified", 304, ""),
        (Method::HEAD, "/head", 200, ""),
        (Method::GET, "/empty", 200, ""),
        (Method::GET, "/chunked", 200, "abcde"),
        (Method::POST, "/continue", 200, "last"),
        (Method::GET, "/big", 200, &big),
        (Method::GET, "/none", 204, ""),
    ] {
        let received = transport.send(&server.request(method, target)).await.unwrap();
        assert_eq!(received.status.as_u16(), status, "{target}");
        assert!(received.body == body.as_bytes(), "{target}: {} bytes", received.body.len());
    }
    assert!(server.connections().iter().all(|connection| *connection == 0));
}

#[tokio::test]
async fn what_is_no_response_has_its_class() {
    for (answer, class) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nabc", "body"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nab", "body"),
        ("HTTP/1.1 200 OK\r\ncontent-le", "reset"),
        ("nonsense, and more of it\r\n\r\n", "protocol"),
        ("", "reset"),
    ] {
        let server = Server::start(match answer.len() {
            0 => |_| (Vec::new(), false),
            _ => |seen: &Seen| (seen.body.clone().into_bytes(), false),
        })
        .await;
        let outgoing = Outgoing { body: answer.into(), ..server.request(Method::POST, "/") };
        let error = Transport::default().send(&outgoing).await.unwrap_err();
        assert_eq!(error.class(), class, "{answer:?}: {error:?}");
    }
}

#[tokio::test]
async fn a_body_is_read_up_to_its_limit_however_it_is_framed() {
    let server = Server::start(|seen| {
        let (head, length) = match seen.line().split_whitespace().nth(1).unwrap() {
            "/announced" => (format!("content-length: {}\r\n", MOST_BODY + 1), 3),
            "/longest" => (format!("content-length: {MOST_BODY}\r\n"), MOST_BODY),
            "/longest-until-the-end" => (String::new(), MOST_BODY),
            "/until-the-end" => (String::new(), MOST_BODY + 1),
            other => panic!("{other}"),
        };
        let mut bytes = format!("HTTP/1.1 200 OK\r\n{head}\r\n").into_bytes();
        bytes.resize(bytes.len() + length as usize, b'x');
        (bytes, false)
    })
    .await;
    for (target, length) in [
        ("/announced", None),
        ("/longest", Some(MOST_BODY)),
        ("/longest-until-the-end", Some(MOST_BODY)),
        ("/until-the-end", None),
    ] {
        let ended = Transport::default().send(&server.request(Method::GET, target)).await;
        match (ended, length) {
            (Ok(received), Some(length)) => assert_eq!(received.body.len() as u64, length, "{target}"),
            (Err(error), None) => {
                assert_eq!(error.class(), "body", "{target}");
                assert_eq!(error.to_string(), "the body is longer than 64 MiB, the most that is read");
            }
            (ended, _) => panic!("{target}: {ended:?}"),
        }
    }
}

#[tokio::test]
async fn nobody_listening_is_a_refusal() {
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let outgoing = request_to(Method::GET, &format!("http://{unused}/"));
    let error = Transport::default().send(&outgoing).await.unwrap_err();
    assert_eq!(error.class(), "connect_refused", "{error:?}");
}

#[tokio::test]
async fn the_version_is_the_one_that_the_server_agrees_to() {
    for (offered, version) in [
        (&[&b"h2"[..], b"http/1.1"][..], Version::HTTP_2),
        (&[b"http/1.1"], Version::HTTP_11),
        (&[], Version::HTTP_11),
    ] {
        let (address, trust) = secure_server(offered).await;
        let transport = trusting(trust);
        let request = async |path| {
            let url = format!("https://{address}/{path}");
            transport.send(&request_to(Method::POST, &url)).await
        };
        let first = request("first").await.unwrap();
        assert_eq!((first.version, &*first.body), (version, &b"/first"[..]));
        let (one, other) = tokio::join!(request("one"), request("other"));
        assert_eq!((&*one.unwrap().body, &*other.unwrap().body), (&b"/one"[..], &b"/other"[..]));
    }
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let (address, _) = secure_server(&[]).await;
    let outgoing = request_to(Method::GET, &format!("https://{address}/"));
    let error = Transport::default().send(&outgoing).await.unwrap_err();
    assert_eq!(error.class(), "tls", "{error:?}");
}

#[tokio::test]
async fn telemetry_is_posted_as_it_is_and_a_redirect_is_told() {
    let server = Server::start(|seen| match seen.line() {
        "post /v1/traces?a=b http/1.1" => ok(seen),
        _ => (b"HTTP/1.1 307 Moved\r\nlocation: /\r\ncontent-length: 0\r\n\r\n".to_vec(), true),
    })
    .await;
    let client = ExportClient::default();
    let post = async |path: &str| {
        let request = http::Request::post(format!("http://{}{path}", server.address))
            .header("x-key", "value")
            .body(Bytes::from_static(b"spans"))
            .unwrap();
        client.send_bytes(request).await.unwrap().status().as_u16()
    };
    assert_eq!((post("/v1/traces?a=b").await, post("/moved").await), (200, 307));
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    assert!(seen[0].head.contains("x-key: value\r\n") && seen[0].body == "spans", "{seen:?}");
}
