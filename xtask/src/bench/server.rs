//! The trivial server of the benchmark: HTTP/1.1 on a free loopback port, the same few bytes for every request.
//!
//! It also sees what no contestant says of itself in the same terms: when requests arrived, and how many connections
//! were open. It is asked by lines on standard input, and answers each with a line on standard output.

use std::convert::Infallible;
use std::io::{BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Thousands of users connect at once. The kernel lowers it to `net.core.somaxconn`.
const BACKLOG: u32 = 16384;

/// Arrivals that are remembered; what comes after is counted only.
const ARRIVALS_MAX: usize = 8 << 20;

/// Prints the address it listens at, and serves and answers until standard input closes.
pub(crate) fn run() -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().build().context("could not start")?;
    let listener = runtime.block_on(async { listen() }).context("could not listen on loopback")?;
    let address = listener.local_addr().context("the listener has no address")?;
    println!("{address}");
    std::io::stdout().flush().context("could not say where it listens")?;

    let seen = Arc::new(Mutex::new(Seen::new(false)));
    let server = Arc::clone(&seen);
    std::thread::spawn(move || runtime.block_on(accept(listener, server)));
    // Ends with the process that started it, however that ends.
    converse(std::io::stdin().lock(), std::io::stdout().lock(), &seen)
}

fn listen() -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    socket.listen(BACKLOG)
}

/// `begin` forgets all so far, `record` also keeps the arrivals from now on. `open` is answered with the connections that
/// are open, `connections` with the most that were at once, `first` with the nanoseconds from the beginning to the first
/// arrival, or nothing if there was none, and `arrivals` with those to each arrival since `record`, after which no more are
/// kept.
fn converse(questions: impl BufRead, mut answers: impl Write, seen: &Mutex<Seen>) -> Result<()> {
    for question in questions.lines() {
        let question = question.context("could not read a question")?;
        let answer = match question.as_str() {
            "begin" => {
                locked(seen).begin(false);
                String::new()
            }
            "record" => {
                locked(seen).begin(true);
                String::new()
            }
            "open" => locked(seen).open.to_string(),
            "connections" => locked(seen).most_open.to_string(),
            "first" => locked(seen).first.map(|nanos| nanos.to_string()).unwrap_or_default(),
            "arrivals" => {
                let (arrivals, all) = locked(seen).take();
                if (arrivals.len() as u64) < all {
                    bail!("{all} requests arrived, more than are remembered");
                }
                arrivals.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
            }
            other => bail!("{other:?} is not a question"),
        };
        writeln!(answers, "{answer}").and_then(|()| answers.flush()).context("could not answer")?;
    }
    Ok(())
}

/// What the server has seen since it was told to begin.
#[derive(Debug)]
struct Seen {
    begun: Instant,
    first: Option<u64>,
    arrivals: Option<Vec<u64>>,
    arrived: u64,
    open: u64,
    most_open: u64,
}

impl Seen {
    fn new(record: bool) -> Self {
        let arrivals = record.then(Vec::new);
        Self { begun: Instant::now(), first: None, arrivals, arrived: 0, open: 0, most_open: 0 }
    }

    fn begin(&mut self, record: bool) {
        *self = Self { open: self.open, most_open: self.open, ..Self::new(record) };
    }

    fn arrival(&mut self) {
        self.arrived += 1;
        if self.first.is_some() && self.arrivals.is_none() {
            return;
        }
        let now = self.begun.elapsed().as_nanos() as u64;
        self.first.get_or_insert(now);
        if let Some(arrivals) = &mut self.arrivals
            && arrivals.len() < ARRIVALS_MAX
        {
            arrivals.push(now);
        }
    }

    fn take(&mut self) -> (Vec<u64>, u64) {
        (self.arrivals.take().unwrap_or_default(), self.arrived)
    }
}

/// Two threads take it: that of the server, and at the start and end of a run the one that answers.
fn locked(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, seen: Arc<Mutex<Seen>>) {
    loop {
        // A connection that broke before it was accepted is the client's affair.
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&seen)));
        }
    }
}

async fn serve(stream: TcpStream, seen: Arc<Mutex<Seen>>) {
    {
        let mut seen = locked(&seen);
        seen.open += 1;
        seen.most_open = seen.most_open.max(seen.open);
    }
    // Fails only for a connection that is gone, which the next line finds too.
    let _ = stream.set_nodelay(true);
    let answer = |_: Request<Incoming>| {
        locked(&seen).arrival();
        async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"ok")))) }
    };
    // Clients cut their connections at the end of a run.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
    locked(&seen).open -= 1;
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::sync::{Arc, Mutex};

    use super::{Seen, converse, listen, locked, serve};

    /// Serves one connection on which `requests` come, the last of them with `connection: close`.
    fn served(requests: usize, seen: &Arc<Mutex<Seen>>) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let listener = runtime.block_on(async { listen() }).unwrap();
        let address = listener.local_addr().unwrap();
        let client = std::thread::spawn(move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            let keep = "GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(requests - 1);
            let close = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
            stream.write_all(format!("{keep}{close}").as_bytes()).unwrap();
            let mut answers = String::new();
            stream.read_to_string(&mut answers).unwrap();
            answers
        });
        runtime.block_on(async {
            let (stream, _) = listener.accept().await.unwrap();
            serve(stream, Arc::clone(seen)).await;
        });
        client.join().unwrap()
    }

    fn asked(questions: &str, seen: &Mutex<Seen>) -> String {
        let mut answers = Vec::new();
        converse(questions.as_bytes(), &mut answers, seen).unwrap();
        String::from_utf8(answers).unwrap()
    }

    #[test]
    fn every_request_on_a_connection_is_answered() {
        let answers = served(2, &Arc::new(Mutex::new(Seen::new(false))));
        assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
    }

    #[test]
    fn arrivals_are_told_in_their_order_and_only_once() {
        let seen = Arc::new(Mutex::new(Seen::new(false)));
        served(1, &seen);
        assert_eq!(asked("record\n", &seen), "\n");
        served(3, &seen);
        let first: u64 = asked("first\n", &seen).trim().parse().unwrap();
        let answers = asked("arrivals\n", &seen);
        let arrivals: Vec<u64> = answers.split_whitespace().map(|one| one.parse().unwrap()).collect();
        assert_eq!(arrivals.first(), Some(&first));
        assert_eq!(arrivals.len(), 3);
        assert!(arrivals.is_sorted() && arrivals[0] > 0, "{arrivals:?}");
        assert_eq!(asked("begin\narrivals\nfirst\n", &seen), "\n\n\n");
    }

    #[test]
    fn the_most_connections_at_once_are_told_and_those_still_open_are_among_them() {
        let seen = Arc::new(Mutex::new(Seen::new(false)));
        served(1, &seen);
        assert_eq!(asked("connections\n", &seen), "1\n");
        locked(&seen).open = 2;
        served(1, &seen);
        assert_eq!(asked("connections\nbegin\nconnections\nopen\n", &seen), "3\n\n2\n2\n");
    }

    #[test]
    fn a_question_that_it_does_not_know_is_an_error_and_so_are_arrivals_that_were_not_kept() {
        let seen = Mutex::new(Seen::new(true));
        assert!(converse(&b"what\n"[..], Vec::new(), &seen).unwrap_err().to_string().contains("what"));
        locked(&seen).arrived = 1;
        let error = converse(&b"arrivals\n"[..], Vec::new(), &seen).unwrap_err();
        assert!(error.to_string().contains("1 requests"), "{error}");
    }
}
