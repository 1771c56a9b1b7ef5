//! However the tool, the guard and the services end, no process is left.

use super::*;

#[test]
fn acts_as_a_guard() {
    if role().as_deref() == Some("guard") {
        guard::main();
        #[expect(clippy::exit, reason = "libtest would go on to report to a tool that may be gone")]
        std::process::exit(0);
    }
}

/// Starts the services that are hardest to end, says where its guard is, and stops when they end.
#[tokio::test]
async fn acts_as_a_tool() {
    let Some(folder) = role().filter(|role| role != "guard") else { return };
    let mut specs =
        vec![spec("forks", FORKS), spec("leaves", LEAVES_ITS_SESSION), spec("ignores", IGNORES_TERM)];
    mark(&mut specs);
    let placeholders = Placeholders::allocate(&specs, folder.as_str(), "").unwrap();
    let services = Services::start(&specs, &placeholders, &Run::at(Path::new(&folder))).await.unwrap();

    // They end when this process does, because their input is closed then.
    let mut spared = process::command("cat").stdin(Stdio::piped()).process_group(0).spawn().unwrap();
    services.spare(spared.id().unwrap());
    let mut same_group = process::command("cat").stdin(Stdio::piped()).spawn().unwrap();
    say(&format!("guard {}", services.guard_pid().unwrap()));

    let error = services.exited().await;
    let others_live = spared.try_wait().unwrap().is_none() && same_group.try_wait().unwrap().is_none();
    services.stop().await;
    say(&format!("others live: {others_live}; {error}"));
}

fn say(line: &str) {
    writeln!(std::io::stdout(), "said: {line}").unwrap();
}

struct Tool {
    child: Child,
    said: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Tool {
    #[expect(clippy::disallowed_methods, reason = "the test is what watches this process")]
    fn start(run: &Run) -> Self {
        let command_line = as_role(run.folder.path().to_str().unwrap(), "acts_as_a_tool");
        let mut child =
            Command::new(&command_line[0]).args(&command_line[1..]).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, said }
    }

    fn hear(&mut self) -> String {
        let mut said = self.said.by_ref().map_while(Result::ok);
        said.find_map(|line| line.strip_prefix("said: ").map(str::to_owned)).unwrap()
    }

    fn guard(&mut self) -> u32 {
        self.hear().strip_prefix("guard ").unwrap().parse().unwrap()
    }
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
}

/// The shells and their sleeps.
const ALL_STARTED: usize = 9;

#[test]
fn a_killed_tool_leaves_no_process() {
    let run = Run::new();
    let mut tool = Tool::start(&run);
    let guard = tool.guard();
    run.wait_for_processes(|count| count >= ALL_STARTED);
    tool.child.kill().unwrap();
    tool.child.wait().unwrap();
    run.wait_for_processes(|count| count == 0);
    let begin = clock::now();
    while crate::sys::proc::Stat::read(guard).is_some_and(|guard| guard.state != 'Z') {
        assert!(begin.elapsed() < GONE_WITHIN, "the guard lives");
    }
}

#[test]
fn a_killed_guard_leaves_no_process_and_what_the_tool_started_lives() {
    let run = Run::new();
    let mut tool = Tool::start(&run);
    let guard = tool.guard();
    run.wait_for_processes(|count| count >= ALL_STARTED);
    kill(guard);
    run.wait_for_processes(|count| count == 0);
    insta::assert_snapshot!(tool.hear(), @"others live: true; the guard process of the services ended unexpectedly; they were ended too");
    assert!(tool.child.wait().unwrap().success());
}

#[tokio::test]
async fn stopping_and_dropping_leave_no_process() {
    let run = Run::new();
    let specs =
        || vec![spec("forks", FORKS), spec("leaves", LEAVES_ITS_SESSION), spec("ignores", IGNORES_TERM)];
    let services = run.start(specs()).await.unwrap();
    run.wait_for_processes(|count| count >= ALL_STARTED);
    services.stop().await;
    assert_eq!(run.processes(), [0; 0]);

    drop(run.start(specs()).await.unwrap());
    run.wait_for_processes(|count| count == 0);
}

#[tokio::test]
async fn a_service_may_clean_up_when_it_is_asked_to_end() {
    let run = Run::new();
    let script = "trap 'echo cleaned; exit' TERM; echo up; while :; do sleep 0.01; done";
    let services =
        run.start(vec![ServiceSpec { ready: Some(line("up")), ..spec("a", script) }]).await.unwrap();
    services.stop().await;
    assert!(run.log("a").ends_with("cleaned\n"), "{}", run.log("a"));
}
