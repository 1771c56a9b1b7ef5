//! A process that is stopped for a while under an arrival rate: the service, and the generator itself.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::running::{Process, Running, signal, start};
use crate::tool::run;

/// Stops a process of the tool's for so long; when it goes on.
fn stop(tool: &Running, what: &str, is: impl Fn(&Process) -> bool, duration: Duration) -> Instant {
    let process = tool.find(what, is);
    signal(process.pid, Signal::STOP);
    thread::sleep(duration);
    let resumed = Instant::now();
    signal(process.pid, Signal::CONT);
    resumed
}

/// A server that answers at once, and when each request came.
fn logging_server() -> (String, Arc<Mutex<Vec<Instant>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let log = Arc::<Mutex<Vec<Instant>>>::default();
    let arrivals = log.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, log) = (stream.unwrap(), log.clone());
            thread::spawn(move || {
                let mut request = [0; 4096];
                // A request fits into one read.
                while stream.read(&mut request).is_ok_and(|n| n > 0) {
                    log.lock().unwrap().push(Instant::now());
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
                }
            });
        }
    });
    (url, arrivals)
}

fn count(value: &serde_json::Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// 100 a second for nine seconds; the service is stopped for three of them.
#[test]
fn what_is_due_while_the_service_is_stopped_is_late_or_dropped_and_all_of_it_counted() {
    let tool = start(run(&["open", "--profile", "traced", "--trace", "off", "--duration", "9s"]));
    tool.wait_for("Running open", 1);
    thread::sleep(Duration::from_secs(2));
    stop(&tool, "service", |process| process.has("--print-environment"), Duration::from_secs(3));
    let ended = tool.into_ended();
    let folder = ended.stdout.lines().find_map(|line| line.strip_prefix("run saved: ")).unwrap();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/robust").join(folder);
    let summary: serde_json::Value =
        serde_json::from_slice(&std::fs::read(path.join("summary.json")).unwrap()).unwrap();
    let scenario = &summary["scenarios"][0];
    let (iterations, dropped) = (count(&scenario["iterations"]), count(&scenario["dropped_iterations"]));
    let of_pool = count(&scenario["dropped"]["pool"]);
    assert_eq!(iterations + dropped + count(&scenario["interrupted_iterations"]), 900, "{scenario}");
    assert_eq!(count(&summary["totals"]["requests"]), iterations);
    // Of the 300 that were due meanwhile 150 found a user and waited, and the others found none.
    assert!((120..=190).contains(&of_pool), "{scenario}");
    let response = &scenario["response_ms"];
    let ms = |name: &str| response[name].as_f64().unwrap();
    assert!(ms("p50") < 500.0 && ms("p90") > 1000.0, "{response}");
    let at_least: Vec<_> = response["at_least"].as_array().unwrap().iter().collect();
    assert!(at_least.contains(&&"p90".into()) && !at_least.contains(&&"p50".into()), "{response}");
    assert_eq!(count(&response["never"]), dropped);
}

/// 100 a second for six seconds; the generator is stopped for two of them.
#[test]
fn what_is_due_while_the_generator_is_stopped_is_dropped_and_not_made_up_for() {
    let (url, arrivals) = logging_server();
    let tool = start(run(&["open", "--duration", "6s", "--trace", "off"]).against(&url));
    tool.wait_for("Running open", 1);
    thread::sleep(Duration::from_secs(2));
    let resumed = stop(&tool, "scenario process", |process| process.runs("robust-"), Duration::from_secs(2));
    let ended = tool.into_ended();
    assert_eq!(ended.code(), 104, "{}", ended.stdout);
    let summary = ended.summary();
    assert_eq!(summary["verdict"], "invalid");
    let scenario = &summary["scenarios"][0];
    let (iterations, dropped) = (count(&scenario["iterations"]), count(&scenario["dropped_iterations"]));
    let of_generator = count(&scenario["dropped"]["generator"]);
    assert_eq!(iterations + dropped + count(&scenario["interrupted_iterations"]), 600, "{scenario}");
    assert!((180..=260).contains(&of_generator), "{scenario}");
    let seen = arrivals.lock().unwrap();
    assert_eq!(seen.len() as u64, iterations, "{scenario}");
    // Ten are due in 100 ms, and a few more on a busy machine; made up for, it would be two hundred.
    let after: Vec<_> = seen.iter().filter(|at| **at >= resumed).collect();
    for (nth, first) in after.iter().enumerate() {
        let within =
            after[nth..].iter().take_while(|at| ***at < **first + Duration::from_millis(100)).count();
        assert!(within <= 30, "{within} in 100 ms");
    }
}
