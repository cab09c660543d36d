//! A running `pervade explore` and requests to it over a socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Sandbox;

/// A server, ended when dropped.
pub(crate) struct Served {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    pub(crate) port: u16,
    pub(crate) token: String,
    pub(crate) started: Value,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    pub(crate) fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }
}

impl Served {
    /// Starts `explore --no-open --json` with these arguments and waits until it answers.
    pub(crate) fn start(sandbox: &Sandbox, args: &[&str]) -> Self {
        let all = [&["explore"], args, &["--no-open", "--json", "--quiet", "--device", "cpu"]].concat();
        let mut child = sandbox.command(&all).stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let started: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
        let url = started["url"].as_str().unwrap();
        let (address, token) = url.strip_prefix("http://127.0.0.1:").unwrap().split_once("/?token=").unwrap();
        let (port, token) = (address.parse().unwrap(), token.to_string());
        Self { child, _stdout: stdout, port, token, started }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Sends these bytes and reads until the server closes the connection; none if it closes it without an answer.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Option<Got> {
        let mut stream = self.connect();
        // The server may refuse before it has read everything.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Got { status, head: head.to_lowercase(), body: body.to_string() })
    }

    /// A request with these headers beside the usual ones.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Got {
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        if !headers.iter().any(|header| header.to_lowercase().starts_with("host:")) {
            head += &format!("Host: 127.0.0.1:{}\r\n", self.port);
        }
        headers.iter().for_each(|header| head += &format!("{header}\r\n"));
        self.raw(format!("{head}\r\n{body}").as_bytes())
            .unwrap_or_else(|| panic!("no answer to {method} {path}"))
    }

    pub(crate) fn token_header(&self) -> String {
        format!("X-Pervade-Token: {}", self.token)
    }

    /// A question with the token.
    pub(crate) fn ask(&self, what: &str, question: &Value) -> Got {
        self.request("POST", &format!("/api/{what}"), &[&self.token_header()], &question.to_string())
    }

    pub(crate) fn page(&self) -> Got {
        self.request("GET", &format!("/?token={}", self.token), &[], "")
    }

    /// Resident memory in kB.
    #[cfg(target_os = "linux")]
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Sends a signal and waits for the exit status.
    #[cfg(unix)]
    pub(crate) fn end(mut self, signal: &str) -> i32 {
        let sent =
            std::process::Command::new("kill").args([signal, &self.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let until = Instant::now() + Duration::from_mins(1);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < until, "the server goes on after {signal}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
