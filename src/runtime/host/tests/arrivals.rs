//! Open models against a server: what was due is counted, whatever became of it, and timed from when it was due.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use super::*;
use crate::model::latency::Latency;
use crate::model::stats::DropCause;
use crate::sys::clock;

async fn one(vu: &Vu) -> Result {
    vu.get("/").send().await?.expect_status(200)?;
    Ok(())
}

async fn slow(vu: &Vu) -> Result {
    vu.get("/delay/{ms}").path("ms", 60_000).send().await?;
    Ok(())
}

fn dropped(stats: &ScenarioStats, cause: DropCause) -> u64 {
    stats.dropped.get(&cause).copied().unwrap_or(0)
}

/// All that began, whatever became of it.
fn begun(stats: &ScenarioStats) -> u64 {
    stats.iterations + stats.interrupted_iterations
}

/// A server that answers at once, but for a stall of which the times are known: what arrives within it is answered at its
/// end. Its time begins with the first request.
struct Stalling {
    address: SocketAddr,
    arrivals: Arc<Mutex<Vec<Instant>>>,
}

impl Stalling {
    fn start(stall: std::ops::Range<Duration>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let arrivals = Arc::<Mutex<Vec<Instant>>>::default();
        let log = arrivals.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, log, stall) = (stream.unwrap(), log.clone(), stall.clone());
                thread::spawn(move || {
                    let mut head = [0; 4096];
                    // A request fits into one read.
                    while stream.read(&mut head).is_ok_and(|n| n > 0) {
                        let now = clock::now();
                        let first = {
                            let mut log = log.lock().unwrap();
                            log.push(now);
                            log[0]
                        };
                        if stall.contains(&(now - first)) {
                            thread::sleep(first + stall.end - now);
                        }
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
                    }
                });
            }
        });
        Self { address, arrivals }
    }

    fn run(&self, scenario: Scenario) -> Outcome {
        let scenarios = vec![scenario];
        let plan = RunPlan { base_url: Some(format!("http://{}", self.address)), ..plan(None, &scenarios) };
        run_with(scenarios, plan, &StopFlag::default())
    }
}

/// The nearest-rank percentile, in milliseconds.
fn exact(sorted: &[f64], percent: f64) -> f64 {
    let rank = (sorted.len() as f64 * percent / 100.0).ceil().max(1.0);
    sorted[rank as usize - 1]
}

fn ms(latency: &Latency, percent: f64) -> f64 {
    latency.percentile(percent).unwrap().nanos as f64 / 1e6
}

#[test]
fn every_arrival_is_an_iteration_that_the_server_saw() {
    for load in [
        scenario("even", one).arrival_rate(200, secs(1), millis(1500)),
        scenario("random", one).arrival_rate(200, secs(1), millis(1500)).poisson(),
        scenario("ramp", one).ramping_arrival_rate(
            0,
            secs(1),
            [stage(millis(1000), 400), stage(millis(500), 0)],
        ),
    ] {
        let server = Server::start();
        let name = load.name.clone();
        let outcome = run(&server, load.pre_allocated_vus(100));
        let stats = outcome.load();
        let due = stats.iterations + stats.dropped_iterations;
        if name == "random" {
            // Five standard deviations to either side of 300.
            assert!((213..387).contains(&due), "{due}");
        } else {
            assert_eq!(due, 300, "{name}");
        }
        // On a machine that is busy enough the pacer itself has to wait.
        assert!(stats.dropped_iterations < 150 && stats.interrupted_iterations == 0, "{:?}", stats.dropped);
        assert_eq!(server.seen().requests, stats.iterations, "{name}");
        assert_eq!((stats.lag.count(), stats.response.count()), (stats.iterations, due), "{name}");
        assert!((1..=100).contains(&stats.vus_max), "{}", stats.vus_max);
        let apart = stats.vu_ns as f64 - stats.iteration.sum_nanos() as f64;
        assert!(apart.abs() < 0.02 * stats.vu_ns as f64 + 1e8, "{apart}");
    }
}

#[test]
fn a_seed_reaches_the_schedule() {
    let starts = |seed| {
        let server = Stalling::start(Duration::ZERO..Duration::ZERO);
        let scenarios = vec![scenario("random", one).arrival_rate(50, secs(1), secs(1)).poisson()];
        let plan = RunPlan {
            base_url: Some(format!("http://{}", server.address)),
            seed: Some(seed),
            ..plan(None, &scenarios)
        };
        let outcome = run_with(scenarios, plan, &StopFlag::default());
        (outcome.load().iterations + outcome.load().dropped_iterations, server)
    };
    let ((one, _), (again, _), (other, _)) = (starts(3), starts(3), starts(4));
    assert_eq!(one, again);
    assert_ne!(one, other, "seeds 3 and 4 make 45 and 60 arrivals or so");
}

#[test]
fn a_stall_of_the_server_is_in_the_response_times_of_all_that_were_due_in_it() {
    let server = Stalling::start(secs(1)..secs(2));
    let outcome =
        server.run(scenario("stalled", one).arrival_rate(100, secs(1), secs(3)).pre_allocated_vus(200));
    let stats = outcome.load();
    assert_eq!((stats.iterations, stats.dropped_iterations), (300, 0));
    assert_eq!(server.arrivals.lock().unwrap().len(), 300);
    // Due at 10·n ms; those of the second from 1 s on are answered at 2 s.
    let mut due: Vec<f64> = (0..300)
        .map(|n| 10.0 * f64::from(n))
        .map(|at| if (1000.0..2000.0).contains(&at) { 2000.0 - at } else { 0.0 })
        .collect();
    due.sort_by(f64::total_cmp);
    let late = stats.response.buckets().filter(|(micros, _)| *micros >= 100_000).map(|(_, n)| n).sum::<u64>();
    assert!((88..=110).contains(&late), "{late} of about 91 that waited for 100 ms or longer");
    for percent in [70.0, 75.0, 80.0, 90.0, 95.0, 99.0, 100.0] {
        let (got, want) = (ms(&stats.response, percent), exact(&due, percent));
        // The server's second begins with its first request, up to any time after the load's own: it holds a hundred
        // arrivals all the same, but the shortest wait is anything up to 10 ms, and the others follow in steps of 10 ms.
        assert!((want - 11.0..want + 150.0).contains(&got), "p({percent}) = {got} ms for {want} ms");
    }
    assert!(ms(&stats.lag, 50.0) < 20.0, "{}", ms(&stats.lag, 50.0));
}

#[test]
fn too_few_users_in_a_stall_drop_what_is_due_and_the_quantiles_say_so() {
    let server = Stalling::start(secs(1)..secs(2));
    let outcome = server.run(scenario("stalled", one).arrival_rate(100, secs(1), secs(3)).max_vus(10));
    let stats = outcome.load();
    assert_eq!(stats.iterations + stats.dropped_iterations, 300);
    let of_pool = dropped(stats, DropCause::Pool);
    assert_eq!((dropped(stats, DropCause::Generator), stats.dropped_iterations), (0, of_pool));
    // Ten of the hundred found a user.
    assert!((80..=95).contains(&of_pool), "{of_pool}");
    assert_eq!(server.arrivals.lock().unwrap().len() as u64, stats.iterations);
    assert_eq!((stats.response.count(), stats.response.never_count()), (300, of_pool));
    assert!(!stats.response.percentile(60.0).unwrap().at_least);
    let p80 = stats.response.percentile(80.0).unwrap();
    assert!(p80.at_least && p80.nanos > 900_000_000, "{p80:?}");
    assert_eq!(stats.vus_max, 10);
}

/// More arrivals than its one user can take: up to four are added, each with this setup.
fn growing(user_setup: impl AsyncFn(&Vu, &()) -> Result<()> + Send + Sync + 'static) -> Scenario {
    stateful("growing")
        .setup(async |_: &Vu| -> Result<()> { Ok(()) })
        .vu_setup(user_setup)
        .iteration(async |vu: &Vu, (): &mut (), (): &()| -> Result {
            vu.get("/delay/{ms}").path("ms", 100).send().await?;
            Ok(())
        })
        .arrival_rate(100, secs(1), secs(1))
        .pre_allocated_vus(1)
        .max_vus(5)
}

#[test]
fn users_are_added_under_load_up_to_the_most_and_it_is_said_once() {
    let server = Server::start();
    let flow = growing(async |vu: &Vu, (): &()| -> Result<()> {
        vu.get("/user-setup").send().await?;
        Ok(())
    });
    let scenarios = vec![flow];
    let plan = plan(Some(&server), &scenarios);
    let outcome = run_with_warnings(scenarios, plan, &StopFlag::default());
    let stats = outcome.load();
    assert_eq!(stats.iterations + stats.dropped_iterations, 100);
    assert_eq!((server.seen().targets["/user-setup"], stats.vus_max), (5, 5));
    assert_eq!(server.seen().targets["/delay/100"], stats.iterations);
    assert_eq!(stats.requests().count, stats.iterations, "a setup is in no figure");
    let codes: Vec<_> = outcome.warnings.iter().map(|warning| warning.code.as_str()).collect();
    assert_eq!(codes, ["users-added"]);
    assert!(outcome.warnings[0].message.contains("up to 5"), "{}", outcome.warnings[0].message);
}

#[test]
fn users_whose_setup_fails_under_load_are_not_tried_without_end() {
    let server = Server::start();
    let setups = Arc::new(AtomicU64::new(0));
    let count = setups.clone();
    let flow = growing(async move |_: &Vu, (): &()| -> Result<()> {
        if count.fetch_add(1, Ordering::Relaxed) > 0 {
            Err("no more accounts")?;
        }
        Ok(())
    });
    let scenarios = vec![flow];
    let plan = plan(Some(&server), &scenarios);
    let outcome = run_with_warnings(scenarios, plan, &StopFlag::default());
    assert_eq!(setups.load(Ordering::Relaxed), 1 + 3);
    let [warning] = &outcome.warnings[..] else { panic!("{:?}", outcome.warnings) };
    assert_eq!(warning.code, "user-not-added");
    assert!(warning.message.contains("no more accounts. After 3 failures in a row"), "{}", warning.message);
}

#[test]
fn at_the_end_nothing_starts_and_what_runs_is_cut_off_and_counted_from_when_it_was_due() {
    let server = Server::start();
    let scenario = scenario("slow", slow)
        .arrival_rate(50, secs(1), secs(1))
        .pre_allocated_vus(60)
        .graceful_stop(millis(300));
    let outcome = run(&server, scenario);
    let stats = outcome.load();
    assert_eq!((stats.iterations, stats.interrupted_iterations, stats.dropped_iterations), (0, 50, 0));
    assert_eq!(server.seen().requests, 50);
    assert_eq!((stats.response.count(), stats.response.censored_count()), (50, 50));
    // The first was due at 0 s and cut off at 1.3 s, the last due at 0.98 s.
    let (most, least) =
        (ms(&stats.response, 100.0), stats.response.censored_above_nanos().unwrap() as f64 / 1e6);
    assert!((1299.0..1400.0).contains(&most) && (319.0..420.0).contains(&least), "{least} to {most}");
    assert!(stats.response.percentile(50.0).unwrap().at_least);
}

#[test]
fn a_warm_up_is_in_no_figure_and_apart() {
    let server = Server::start();
    let load = scenario("warm", one).arrival_rate(100, secs(1), secs(2)).warm_up(millis(500));
    let outcome = run(&server, load);
    let (stats, warm) = (outcome.load(), &outcome.stats.warm_up["warm"]);
    assert_eq!((begun(stats) + stats.dropped_iterations, begun(warm) + warm.dropped_iterations), (150, 50));
    assert_eq!((stats.requests().count, warm.requests().count), (stats.iterations, warm.iterations));
    assert_eq!(server.seen().requests, stats.iterations + warm.iterations);
    let measured = outcome.stats.measured("warm");
    assert!((millis(1490)..millis(1700)).contains(&measured), "{measured:?}");
    assert_eq!(outcome.stats.load_time, measured);

    let server = Server::start();
    let loop_ms = async |vu: &Vu| -> Result {
        vu.get("/delay/{ms}").path("ms", 10).send().await?;
        Ok(())
    };
    let outcome = run(&server, scenario("closed", loop_ms).constant_vus(3, secs(1)).warm_up(millis(400)));
    let (stats, warm) = (outcome.load(), &outcome.stats.warm_up["closed"]);
    assert!(warm.iterations > 20 && stats.iterations > 40, "{} {}", warm.iterations, stats.iterations);
    assert_eq!(server.seen().requests, stats.iterations + warm.iterations);
    let (users, iterations) = (stats.vu_ns as f64, stats.iteration.sum_nanos() as f64);
    assert!((users / iterations - 1.0).abs() < 0.03, "{users} for {iterations}");
    assert_eq!(stats.vus_max, 3);
}

#[test]
fn scenarios_start_at_their_time_or_after_each_other_each_with_its_own_span() {
    let server = Server::start();
    let at = |path: &'static str| {
        async move |vu: &Vu| -> Result {
            vu.get(path).send().await?;
            vu.sleep(millis(20)).await;
            Ok(())
        }
    };
    let scenarios = vec![
        scenario("first", at("/first")).constant_vus(2, millis(400)),
        scenario("later", at("/later")).arrival_rate(100, secs(1), millis(300)).start_time(millis(600)),
        scenario("then", at("/then")).iterations_per_vu(2, 10).start_after("first"),
        scenario("last", at("/last"))
            .constant_vus(1, millis(200))
            .start_after("then")
            .start_time(millis(100)),
    ];
    let plan = plan(Some(&server), &scenarios);
    let outcome = run_with(scenarios, plan, &StopFlag::default());
    let span = |name: &str| {
        let span = outcome.stats.load[name].measured.unwrap();
        (Duration::from_nanos(span.from_ns), Duration::from_nanos(span.to_ns))
    };
    let (first, later, then, last) = (span("first"), span("later"), span("then"), span("last"));
    assert_eq!((first.0, later.0), (Duration::ZERO, millis(600)));
    assert!(first.1 >= millis(400) && then.0 == first.1, "{first:?} {then:?}");
    assert!(then.1 >= then.0 + millis(200) && last.0 == then.1 + millis(100), "{then:?} {last:?}");
    assert!(last.1 >= last.0 + millis(200), "{last:?}");
    let all = |name: &str| begun(&outcome.stats.load[name]) + outcome.stats.load[name].dropped_iterations;
    assert_eq!((all("then"), all("later")), (20, 30));
    for name in ["first", "later", "then", "last"] {
        let stats = &outcome.stats.load[name];
        assert_eq!(stats.requests().count, server.seen().targets[&format!("/{name}")], "{name}");
    }
    // At each instant up to 600 ms, and then to the end of `then`, at least one runs.
    assert!(outcome.stats.load_time <= last.1 && outcome.stats.load_time + then.0 >= first.1 + then.1);
}

#[test]
fn an_order_that_cannot_be_is_refused() {
    let server = Server::start();
    for (scenarios, words) in [
        (vec![scenario("a", one).start_after("b")], "`b`"),
        (vec![scenario("a", one).start_after("b"), scenario("b", one).start_after("a")], "a after b after a"),
    ] {
        let plan = plan(Some(&server), &scenarios);
        let outcome = run_with(scenarios, plan, &StopFlag::default());
        assert_eq!(outcome.failure().kind, FailureKind::Configuration);
        assert!(outcome.failure().message.contains(words), "{}", outcome.failure().message);
    }
    let scenarios = vec![scenario("a", one), scenario("b", one).start_after("a")];
    let plan = RunPlan { scenarios: vec!["b".into()], ..plan(Some(&server), &scenarios) };
    let outcome = run_with_warnings(scenarios, plan, &StopFlag::default());
    assert_eq!(outcome.warnings[0].code, "start-after");
    assert_eq!(outcome.load().iterations, 1);
}

#[test]
fn settings_in_code_are_the_last_but_for_the_processs_own() {
    let server = Server::start();
    let flow = async |vu: &Vu| -> Result {
        vu.check("code", vu.env("SHAPE").as_deref() == Some("round"));
        vu.check("the run's", vu.env("COLOUR").as_deref() == Some("red"));
        Ok(())
    };
    let outcome = run(&server, scenario("env", flow).env("SHAPE", "round").env("COLOUR", "blue"));
    assert_eq!((outcome.load().checks["code"].fails, outcome.load().checks["the run's"].fails), (0, 0));
}

#[test]
fn twenty_thousand_arrivals_a_second_are_kept_up_with() {
    let nothing = async |_: &Vu| -> Result { Ok(()) };
    let scenarios = vec![scenario("fast", nothing).arrival_rate(20_000, secs(1), secs(2))];
    let plan = plan(None, &scenarios);
    let outcome = run_with(scenarios, plan, &StopFlag::default());
    let stats = outcome.load();
    assert_eq!(stats.iterations + stats.dropped_iterations, 40_000);
    assert_eq!(stats.lag.count(), stats.iterations);
    assert!(stats.dropped_iterations < 2000, "{:?}", stats.dropped);
    assert!(ms(&stats.lag, 50.0) < 20.0, "{} ms", ms(&stats.lag, 50.0));
}
