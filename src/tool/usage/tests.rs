//! Totals and single seconds from counters that are made up, and a real process that is watched.

use std::collections::BTreeMap;

use super::*;
use crate::model::sample;
use crate::sys::proc::SchedStat;

const PID: u32 = 7;

fn resource() -> Resource {
    Resource { run: sample::facts().id, more: BTreeMap::new(), started_unix_ns: 5 }
}

/// A state that watches `auth`, and the folder that its seconds are written into.
fn state() -> (State, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = WholeFile::create(&folder.path().join("usage.jsonl")).unwrap();
    let mut state = State::new(Series::new(file), resource());
    state.watched.push(Watched {
        name: "auth".to_owned(),
        source: Source::Started { pid: PID, with_children: true },
        last: Family::default(),
        total: Total::default(),
        is_told_unknown: false,
    });
    (state, folder)
}

fn family(cpu_ticks: u64, threads: &[(u32, u64, u64)], rss_bytes: u64) -> Family {
    let threads =
        threads.iter().map(|&(thread, running, waiting)| ((PID, thread), SchedStat { running, waiting }));
    Family {
        cpu_ticks: BTreeMap::from([(PID, cpu_ticks)]),
        threads: threads.collect(),
        rss_bytes,
        open_files: Some(rss_bytes / 10),
    }
}

/// At so many milliseconds: busy ticks and all ticks of the host, of the busy ones a tenth stolen.
fn at(start: Instant, millis: u64, busy_ticks: u64, total_ticks: u64) -> Sample {
    Sample {
        at: start + Duration::from_millis(millis),
        host: Some(Host { busy_ticks, total_ticks, steal_ticks: busy_ticks / 10 }),
        pressure_us: Some(millis * 250),
    }
}

#[test]
fn only_the_time_of_the_load_counts() {
    let (mut state, _folder) = state();
    let start = clock::now();
    let mut add = |counting, sample, family: Family| {
        state.counting = counting;
        state.add(sample, vec![family], 0).is_some()
    };
    assert!(!add(false, at(start, 0, 5000, 9000), family(900, &[(7, 10, 10)], 999)));
    assert!(!add(false, at(start, 1000, 5000, 10_000), family(1000, &[(7, 100, 500)], 99)));
    assert!(add(true, at(start, 2000, 5150, 10_200), family(1120, &[(7, 200, 1200)], 30)));
    assert!(add(true, at(start, 3000, 5300, 10_400), family(1200, &[(7, 300, 1900)], 20)));
    // The rest of a second, too short for a share.
    assert!(add(true, at(start, 3020, 5304, 10_404), family(1204, &[(7, 300, 1900)], 20)));
    assert!(!add(false, at(start, 9000, 9000, 20_000), family(5000, &[(7, 9000, 9000)], 500)));
    let usage = state.usage();
    let near = |value: Option<f64>, wanted: f64| (value.unwrap() - wanted).abs() < 1e-9;
    assert!(near(usage.host_cpu_share, 304.0 / 404.0), "{usage:?}");
    assert!(near(usage.steal_share, 30.0 / 404.0), "{usage:?}");
    assert!(near(usage.cpu_pressure, 0.25), "{usage:?}");
    let auth = &usage.processes[0];
    assert_eq!((auth.name.as_str(), auth.pid, auth.processes), ("auth", PID, 1));
    assert!(near(Some(auth.cpu_share), 204.0 / 404.0), "{auth:?}");
    assert!(near(auth.cpu_share_max, 0.6), "{auth:?}");
    assert_eq!(auth.runqueue_wait_ratio, Some(7.0));
    assert_eq!((auth.rss_bytes_max, auth.open_files_max), (Some(30), Some(3)));
}

#[test]
fn threads_and_processes_may_come_and_go() {
    let (mut state, _folder) = state();
    let start = clock::now();
    state.add(at(start, 0, 0, 0), vec![family(0, &[(7, 100, 100), (8, 50, 50)], 1)], 0);
    state.counting = true;
    state.add(at(start, 1000, 0, 100), vec![family(10, &[(7, 200, 150), (9, 40, 80)], 1)], 0);
    let mut with_child = family(20, &[(7, 200, 150)], 1);
    with_child.cpu_ticks.insert(70, 5);
    let second = state.add(at(start, 2000, 0, 200), vec![with_child], 0).unwrap();
    assert_eq!((second.processes[0].pid, second.processes[0].processes), (7, 2));
    // 10, then 10 and 5; 100 and 40 of running, 50 and 80 of waiting, all before the last second.
    let auth = &state.usage().processes[0];
    assert_eq!((auth.cpu_share.to_string().as_str(), auth.processes), ("0.125", 2));
    assert_eq!(auth.runqueue_wait_ratio, Some(130.0 / 140.0));
}

#[test]
fn a_process_that_is_gone_for_a_while_is_not_charged_with_what_others_used() {
    let (mut state, _folder) = state();
    let start = clock::now();
    state.add(at(start, 0, 0, 0), vec![family(50, &[], 1)], 0);
    state.counting = true;
    let second = state.add(at(start, 1000, 0, 100), vec![Family::default()], 0).unwrap();
    assert_eq!(second.processes, []);
    state.add(at(start, 2000, 0, 200), vec![family(30, &[], 1)], 0);
    assert_eq!(state.usage().processes[0].cpu_share.to_string(), "0.15");
}

#[test]
fn what_the_system_does_not_tell_is_missing() {
    let (mut state, _folder) = state();
    let nothing = Sample { at: clock::now(), host: None, pressure_us: None };
    state.counting = true;
    state.add(nothing, vec![Family::default()], 0);
    assert_eq!(state.add(nothing, vec![Family::default()], 0), None);
    assert_eq!(state.usage(), Usage::default());
}

#[test]
fn each_second_of_load_is_a_line_and_without_any_there_is_no_file() {
    let (mut state, folder) = state();
    let path = folder.path().join("usage.jsonl");
    let start = clock::now();
    state.add(at(start, 0, 0, 0), vec![family(0, &[(7, 0, 0)], 10)], 0);
    state.counting = true;
    for n in 1..=2 {
        let family = family(n * 50, &[(7, n * 200, n * 100)], n * 100);
        let second = state.add(at(start, n * 1000, n * 150, n * 200), vec![family], n * 1_000_000_000);
        state.series.write(&second.unwrap());
    }
    assert!(!path.exists());
    state.series.finish().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let host = |steal: f64| serde_json::json!({ "seconds": 1.0, "cpu_share": 0.75, "steal_share": steal, "cpu_pressure": 0.25 });
    let process = |n: u64| {
        serde_json::json!({
            "name": "auth", "pid": 7, "processes": 1, "cpu_share": 0.25, "runqueue_wait_ratio": 0.5,
            "rss_bytes": n * 100, "open_files": n * 10,
        })
    };
    assert_eq!(
        lines,
        [
            serde_json::json!({ "unix_ms": 1000, "host": host(0.075), "processes": [process(1)] }),
            serde_json::json!({ "unix_ms": 2000, "host": host(0.075), "processes": [process(2)] }),
        ]
    );
    let (mut idle, folder) = self::state();
    idle.series.finish().unwrap();
    assert!(!folder.path().join("usage.jsonl").exists());
}

#[test]
fn each_process_is_a_resource_of_its_own_with_its_gauges() {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::metrics::v1::metric::Data;
    use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
    use prost::Message as _;
    let (mut state, _folder) = state();
    let start = clock::now();
    state.add(at(start, 0, 0, 0), vec![family(0, &[(7, 0, 0)], 0)], 0);
    state.counting = true;
    let second = state.add(at(start, 1000, 0, 200), vec![family(50, &[(7, 200, 100)], 4096)], 2_000_000_000);
    let more = BTreeMap::from([("vcs.ref.head.revision".to_owned(), "abc".to_owned())]);
    let request = gauges::request(&second.unwrap(), &Resource { more, ..resource() });
    let request = ExportMetricsServiceRequest::decode(request).unwrap();
    let [of_auth] = request.resource_metrics.as_slice() else { panic!("{request:?}") };
    let attributes: Vec<String> =
        of_auth.resource.iter().flat_map(|it| &it.attributes).map(|it| it.key.clone()).collect();
    assert_eq!(
        attributes,
        ["service.name", "service.instance.id", "process.pid", "loadtest.run.id", "vcs.ref.head.revision"]
    );
    let values: Vec<_> = of_auth.scope_metrics[0]
        .metrics
        .iter()
        .map(|metric| {
            let point = match metric.data.as_ref().unwrap() {
                Data::Gauge(gauge) => &gauge.data_points[0],
                Data::Sum(sum) if !sum.is_monotonic => &sum.data_points[0],
                other => panic!("{other:?}"),
            };
            assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (5, 2_000_000_000));
            (metric.name.as_str(), metric.unit.as_str(), point.value.unwrap())
        })
        .collect();
    assert_eq!(
        values,
        [
            ("process.cpu.utilization", "1", Value::AsDouble(0.25)),
            ("loadtest.process.runqueue_wait", "1", Value::AsDouble(0.5)),
            ("process.memory.usage", "By", Value::AsInt(4096)),
            ("process.open_file_descriptor.count", "{file_descriptor}", Value::AsInt(409)),
        ]
    );
}

/// Ends the process that it was made for.
#[cfg(target_os = "linux")]
struct Killed(std::process::Child);

#[cfg(target_os = "linux")]
impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A shell that has 40 more descriptors open and then keeps a CPU busy, under a name of its own.
#[cfg(target_os = "linux")]
fn busy(folder: &std::path::Path, name: &str) -> Killed {
    use std::process::Stdio;
    let program = folder.join(name);
    // A process is named after the path that it was started by.
    if !program.exists() {
        std::os::unix::fs::symlink("/bin/bash", &program).unwrap();
    }
    let script =
        "for n in $(seq 20 59); do eval \"exec $n</dev/null\"; done; echo ready; while :; do :; done";
    let mut command = crate::sys::process::unwatched_command(&program);
    let mut child = command.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    let stdout = child.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut ready).unwrap();
    assert_eq!(ready, "ready\n");
    Killed(child)
}

#[cfg(target_os = "linux")]
#[test]
fn processes_of_one_name_are_summed_and_counted_and_one_that_is_not_there_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody else has it, and the kernel cuts it off.
    let name = format!("burner{}-abcdefgh", std::process::id());
    let burners = [busy(folder.path(), &name), busy(folder.path(), &name)];
    let file = WholeFile::create(&folder.path().join("usage.jsonl")).unwrap();
    let sampler = Sampler::start(file, resource()).unwrap();
    let missing = format!("nobody-{}", std::process::id());
    let targets = [Target::Name(name.clone()), Target::Name(missing.clone())];
    sampler.watch_others(&targets);
    sampler.watch_others(&targets);
    let warnings = sampler.load_begins();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0].code, "watch-unknown");
    assert!(warnings[0].message.contains(&missing), "{warnings:?}");
    // Until each has had at least a tenth of a second.
    let ticks = || burners.iter().map(|it| proc::Stat::read(it.0.id()).unwrap().cpu_ticks).min().unwrap();
    let until = ticks() + 10;
    while ticks() < until {
        thread::sleep(Duration::from_millis(5));
    }
    sampler.load_ends();
    assert_eq!(sampler.load_begins(), [], "told once");
    let usage = sampler.usage();
    let [burner] = usage.processes.as_slice() else { panic!("{usage:?}") };
    assert_eq!((&burner.name, burner.processes), (&name, 2));
    assert_eq!(burner.pid, burners[0].0.id().min(burners[1].0.id()));
    assert!(burner.cpu_share > 0.0 && burner.cpu_share <= usage.host_cpu_share.unwrap(), "{usage:?}");
    assert!(burner.open_files_max.unwrap() >= 2 * 40, "{burner:?}");
    assert!(burner.rss_bytes_max.unwrap() > 0 && burner.cpu_share_max.unwrap() > 0.0, "{burner:?}");
    sampler.finish().unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_is_watched_by_its_id() {
    let folder = tempfile::tempdir().unwrap();
    let burner = busy(folder.path(), "burner");
    let file = WholeFile::create(&folder.path().join("usage.jsonl")).unwrap();
    let sampler = Sampler::start(file, resource()).unwrap();
    sampler.watch_others(&[burner.0.id().to_string().parse().unwrap()]);
    assert_eq!(sampler.load_begins(), []);
    let before = proc::Stat::read(burner.0.id()).unwrap().cpu_ticks;
    while proc::Stat::read(burner.0.id()).unwrap().cpu_ticks < before + 5 {
        thread::sleep(Duration::from_millis(5));
    }
    sampler.load_ends();
    let usage = sampler.usage();
    assert_eq!(usage.processes[0].name, burner.0.id().to_string());
    assert!(usage.processes[0].cpu_share > 0.0, "{usage:?}");
}
