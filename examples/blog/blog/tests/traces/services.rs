//! The five services as processes on free ports, with databases in a folder of their own.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub(crate) struct Blog {
    /// In the order of their start, the gateway last.
    services: Vec<Service>,
    _databases: TempDir,
}

struct Service {
    name: &'static str,
    process: Child,
    address: String,
    log: Option<JoinHandle<String>>,
}

impl Blog {
    pub(crate) fn start(env: &[(&str, &str)]) -> Result<Self> {
        let databases = TempDir::new()?;
        let db = |name: &str| databases.path().join(name).display().to_string();
        let start = |name, program, args: &[&str]| Service::start(name, program, args, env);

        let user = start("user", env!("CARGO_BIN_EXE_blog-user"), &["--db", &db("user.db")])?;
        let to_user = ["--user", &user.address];
        let auth = start(
            "auth",
            env!("CARGO_BIN_EXE_blog-auth"),
            &[&["--db", &db("auth.db"), "--bcrypt-cost", "4"], &to_user[..]].concat(),
        )?;
        let to_auth = ["--auth", &auth.address];
        let blog = start("blog", env!("CARGO_BIN_EXE_blog-post"), &["--db", &db("blog.db")])?;
        let to_blog = ["--blog", &blog.address];
        let comment = start(
            "comment",
            env!("CARGO_BIN_EXE_blog-comment"),
            &[&["--db", &db("comment.db")], &to_blog[..]].concat(),
        )?;
        let to_comment = ["--comment", &comment.address];
        let gateway = start(
            "gateway",
            env!("CARGO_BIN_EXE_blog-gateway"),
            &[to_user, to_auth, to_blog, to_comment].concat(),
        )?;
        Ok(Self { services: vec![user, auth, blog, comment, gateway], _databases: databases })
    }

    pub(crate) fn gateway(&self) -> String {
        self.services.last().expect("the gateway was started").address.clone()
    }

    /// Stops them by SIGTERM, at which they send what spans they have; gives what they logged.
    pub(crate) fn stop(mut self) -> Result<String> {
        self.services.iter_mut().rev().map(Service::stop).collect()
    }
}

impl Service {
    fn start(name: &'static str, program: &str, args: &[&str], env: &[(&str, &str)]) -> Result<Self> {
        let mut process = Command::new(program)
            .args(["--port", "0"])
            .args(args)
            .env_clear()
            .envs(env.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        let mut stderr = BufReader::new(process.stderr.take().context("no stderr")?);
        let mut service = Self { name, process, address: String::new(), log: None };
        let mut log = String::new();
        while service.address.is_empty() {
            let mut line = String::new();
            ensure!(stderr.read_line(&mut line)? > 0, "{name} never listened:\n{log}");
            if let Some((_, address)) = line.split_once("listening on ") {
                service.address = format!("http://{}", address.trim());
            }
            log.push_str(&line);
        }
        service.log = Some(thread::spawn(move || {
            // Whatever could not be read is missing from the log, and is seen there.
            let _ = stderr.read_to_string(&mut log);
            log
        }));
        Ok(service)
    }

    fn stop(&mut self) -> Result<String> {
        kill_process(Pid::from_child(&self.process), Signal::TERM)?;
        let status = self.process.wait()?;
        let log = self.log.take().context("stopped twice")?.join();
        let log = log.map_err(|_| anyhow::anyhow!("the log's reader panicked"))?;
        ensure!(status.success(), "{} ended with {status}:\n{log}", self.name);
        Ok(log)
    }
}

impl Drop for Service {
    /// Nothing is left running when a test fails.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
