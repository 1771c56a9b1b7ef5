//! The flags that say how HTTP is spoken.

use std::path::PathBuf;

use clap::Args;

use crate::sys::env::current_dir;
use crate::tool::config::HttpFlag;

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "HTTP, over what scenarios and loadtest.toml say")]
pub(super) struct HttpArgs {
    /// HTTP/1.1 alone
    #[arg(long, conflicts_with = "http2")]
    http1: bool,
    /// HTTP/2 without asking, also without TLS
    #[arg(long)]
    http2: bool,
    /// Take any certificate for the server's
    #[arg(long, conflicts_with = "ca_file")]
    insecure: bool,
    /// Trust the certificates in this PEM file, in place of the platform's
    #[arg(long, value_name = "FILE")]
    ca_file: Vec<PathBuf>,
    /// Show the server this certificate (PEM)
    #[arg(long, value_name = "FILE")]
    client_cert: Option<PathBuf>,
    /// The key of --client-cert, where it is not in the same file
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
    /// Whom the server's certificate has to name
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
    /// Connect to this address for a host and port
    #[arg(long, value_name = "HOST:PORT:ADDR")]
    resolve: Vec<String>,
    /// Where connections come from, each user's from one: 127.0.0.2-127.0.0.50, a network, a list
    #[arg(long, value_name = "ADDRS")]
    source_ip: Vec<String>,
    /// Connect to this Unix socket, whatever host a URL has
    #[arg(long, value_name = "PATH")]
    unix_socket: Option<PathBuf>,
    /// A new connection for each request
    #[arg(long)]
    no_connection_reuse: bool,
    /// How long connecting may take, such as 2s
    #[arg(long, value_name = "D")]
    connect_timeout: Option<String>,
    /// Let load go to this host, too
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,
}

impl HttpArgs {
    /// As settings. Relative paths are below the working folder.
    pub(super) fn flags(&self) -> Vec<HttpFlag> {
        let switch = |on: bool, value: &str| if on { vec![value.to_owned()] } else { Vec::new() };
        let path = |path: &PathBuf| {
            // Without a working folder a relative path leads nowhere in any case.
            let whole = current_dir().map_or_else(|_| path.clone(), |folder| folder.join(path));
            whole.to_string_lossy().into_owned()
        };
        let said = [
            ("version", "--http1", switch(self.http1, "http1")),
            ("version", "--http2", switch(self.http2, "http2-prior-knowledge")),
            ("insecure", "--insecure", switch(self.insecure, "true")),
            ("ca-files", "--ca-file", self.ca_file.iter().map(path).collect()),
            ("client-cert", "--client-cert", self.client_cert.iter().map(path).collect()),
            ("client-key", "--client-key", self.client_key.iter().map(path).collect()),
            ("server-name", "--server-name", self.server_name.iter().cloned().collect()),
            ("resolve", "--resolve", self.resolve.clone()),
            ("source-ips", "--source-ip", self.source_ip.clone()),
            ("unix-socket", "--unix-socket", self.unix_socket.iter().map(path).collect()),
            ("connection-reuse", "--no-connection-reuse", switch(self.no_connection_reuse, "false")),
            ("connect-timeout", "--connect-timeout", self.connect_timeout.iter().cloned().collect()),
            ("allowed-hosts", "--allow-host", self.allow_host.clone()),
        ];
        let given = said.into_iter().filter(|(_, _, values)| !values.is_empty());
        given.map(|(key, flag, values)| HttpFlag { key, flag, values }).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::model::http::HttpSettings;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        http: HttpArgs,
    }

    #[test]
    fn every_flag_is_a_setting() {
        let lines = [
            "x --http2 --ca-file a.pem --ca-file /b.pem --client-cert c.pem --client-key k.pem --server-name n \
             --resolve a:1:127.0.0.1 --resolve b:2:::1 --unix-socket s --no-connection-reuse --connect-timeout 2s \
             --allow-host h --allow-host i",
            "x --http1 --insecure --source-ip 127.0.0.2 --source-ip 127.0.0.8/30",
        ];
        let settings = lines.map(|line| {
            let mut settings = HttpSettings::default();
            for flag in Line::try_parse_from(line.split_whitespace()).unwrap().http.flags() {
                settings.set(flag.key, &flag.values).unwrap();
            }
            settings
        });
        assert!(settings[0].ca_files[0].is_absolute() && settings[0].ca_files[1].ends_with("b.pem"));
        assert_eq!((settings[0].resolve.len(), settings[0].allowed_hosts.len()), (2, 2));
        assert_eq!(settings[1].source_ips.as_ref().unwrap().count(), 3);
        let both = serde_json::to_value(settings[0].clone().over(&settings[1])).unwrap();
        assert!(both.as_object().unwrap().values().all(|value| !value.is_null()), "{both}");
    }

    #[test]
    fn flags_that_contradict_each_other_are_refused() {
        for line in ["x --http1 --http2", "x --insecure --ca-file a.pem", "x --client-key k.pem"] {
            assert!(Line::try_parse_from(line.split_whitespace()).is_err(), "{line}");
        }
    }
}
