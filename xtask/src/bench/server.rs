//! The trivial server of the benchmark: HTTP/1.1 on a free loopback port, the same few bytes for every request.

use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;

use anyhow::{Context as _, Result};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

/// Prints the address it listens at, and serves until standard input closes.
pub(crate) fn run() -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().build().context("could not start")?;
    let listener = runtime
        .block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .context("could not listen on loopback")?;
    let address = listener.local_addr().context("the listener has no address")?;
    println!("{address}");
    std::io::stdout().flush().context("could not say where it listens")?;

    std::thread::spawn(move || runtime.block_on(accept(listener)));
    // Ends with the process that started it, however that ends.
    std::io::stdin().read_to_end(&mut Vec::new()).context("could not wait for the end of standard input")?;
    Ok(())
}

async fn accept(listener: TcpListener) {
    loop {
        // A connection that broke before it was accepted is the client's affair.
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    }
}

async fn serve(stream: TcpStream) {
    // Fails only for a connection that is gone, which the next line finds too.
    let _ = stream.set_nodelay(true);
    let answer = |_: Request<Incoming>| async {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"ok"))))
    };
    // Clients cut their connections at the end of a run.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::Ipv4Addr;

    use tokio::net::TcpListener;

    #[test]
    fn every_request_on_a_connection_is_answered() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let client = std::thread::spawn(move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            let keep = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
            let close = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
            stream.write_all(format!("{keep}{close}").as_bytes()).unwrap();
            let mut answers = String::new();
            stream.read_to_string(&mut answers).unwrap();
            answers
        });
        runtime.block_on(async {
            let (stream, _) = listener.accept().await.unwrap();
            super::serve(stream).await;
        });
        let answers = client.join().unwrap();
        assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
    }
}
