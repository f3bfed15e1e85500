//! A real browser without a window: Debian's Chromium, spoken to by WebDriver (W3C) over chromedriver.
//!
//! Only what tests of a page need: open it, run a script in it, change what its style sheet asks for.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

use crate::Packages;
use crate::process::{self, Process};
use crate::{Availability, Error, Result, wait};

/// axe-core, which finds what keeps people from using a page.
const AXE: Packages = Packages::new("axe", include_str!("../python/axe.txt"));

/// How long one command may take: a browser that starts beside other tests is slow.
const COMMAND_TIME_MAX: Duration = wait::PATIENCE;

/// How long an answer may be, in bytes: a page's text, with room to spare.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// Whether browsers can be started here.
pub fn availability() -> Availability {
    process::availability()
        .and(|| Availability::of_programs(&["chromium"], "chromium"))
        .and(|| Availability::of_programs(&["chromedriver"], "chromium-driver"))
}

/// Whether [`Browser::obstacles`] can be asked for here.
pub fn axe_availability() -> Availability {
    AXE.availability()
}

/// A browser with one page; dropping it ends it. Whatever is asked of it is an error if it does not answer.
#[derive(Debug)]
pub struct Browser {
    driver: Process,
    address: SocketAddr,
    session: String,
}

impl Browser {
    /// Starts one.
    pub fn start() -> Result<Self> {
        let mut command = process::command("chromedriver");
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver = Process::start(command)?;
        let said = driver.take_stdout().ok_or_else(|| Error::new("chromedriver has no standard output"))?;
        let port = port(BufReader::new(said))?;
        let mut this = Self { driver, address: (Ipv4Addr::LOCALHOST, port).into(), session: String::new() };
        // Over a pipe, so that it ends with its driver. It refuses to run as root in a sandbox, and a small machine has
        // little shared memory.
        let arguments =
            ["--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": arguments}}}});
        let made = this.ask("POST", "/session", &wanted)?;
        let session = made["sessionId"].as_str().ok_or_else(|| Error::new(format!("no session: {made}")))?;
        this.session = format!("/session/{session}");
        Ok(this)
    }

    /// Opens a page and waits until it is loaded.
    pub fn open(&self, url: &str) -> Result<()> {
        self.post("/url", &json!({ "url": url })).map(drop)
    }

    /// Runs the body of a function in the page and returns what that returns. The page's rules for scripts do not hold
    /// for it.
    pub fn run(&self, script: &str) -> Result<Value> {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Gives the page so much room, in pixels.
    pub fn resize(&self, width: u32, height: u32) -> Result<()> {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.instruct("Emulation.setDeviceMetricsOverride", &metrics)
    }

    /// Shows no bars to scroll with, which other machines draw in another way.
    pub fn hide_scroll_bars(&self) -> Result<()> {
        self.instruct("Emulation.setScrollbarsHidden", &json!({"hidden": true}))
    }

    /// Has the page believe that its user likes it `light` or `dark`.
    pub fn prefer(&self, scheme: &str) -> Result<()> {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.instruct("Emulation.setEmulatedMedia", &json!({ "features": features }))
    }

    /// What keeps people from using the page, as axe-core finds it: each with its name, its weight, and where.
    pub fn obstacles(&self) -> Result<Vec<(String, String, String)>> {
        let file = AXE.folder()?.join("axe_playwright_python/axe.min.js");
        let axe = fs::read_to_string(&file).map_err(Error::io(file.display()))?;
        self.run(&axe)?;
        let ask = "const done = arguments[0];
            axe.run().then((found) => done(found.violations.flatMap(({ id, impact, nodes }) =>
                nodes.map((node) => [id, impact, node.html]))),
                (error) => done([['axe', 'critical', String(error)]]));";
        let found = self.post("/execute/async", &json!({ "script": ask, "args": [] }))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let found = found.as_array().into_iter().flatten();
        Ok(found.map(|one| (text(&one[0]), text(&one[1]), text(&one[2]))).collect())
    }

    /// A picture of the page as it is shown, as a PNG file.
    pub fn picture(&self) -> Result<Vec<u8>> {
        let picture = self.ask("GET", &format!("{}/screenshot", self.session), &Value::Null)?;
        let picture = picture.as_str().unwrap_or_default();
        BASE64_STANDARD.decode(picture).map_err(|error| Error::new(format!("no picture was answered: {error}")))
    }

    /// Presses keys, one after the other, as WebDriver names them.
    pub fn press(&self, keys: &str) -> Result<()> {
        let strokes: Vec<Value> = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|stroke| json!({"type": stroke, "value": key.to_string()})))
            .collect();
        let actions = json!({"actions": [{"type": "key", "id": "keys", "actions": strokes}]});
        self.post("/actions", &actions).map(drop)
    }

    /// Names all of its processes: those that draw pages, and those that these need.
    pub fn processes(&self) -> Vec<u32> {
        self.driver.descendants()
    }

    fn instruct(&self, command: &str, parameters: &Value) -> Result<()> {
        self.post("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters })).map(drop)
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.ask("POST", &format!("{}{path}", self.session), body)
    }

    /// Sends a command and returns its value.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let failed = |error| Error::new(format!("{method} {path} to chromedriver: {error}"));
        let answer = exchange(self.address, method, path, &body).map_err(|error| failed(error.to_string()))?;
        let mut answer: Value = serde_json::from_str(&answer).map_err(|error| failed(error.to_string()))?;
        match answer["value"]["error"].as_str() {
            Some(error) => Err(failed(format!("{error}: {}", answer["value"]["message"]))),
            None => Ok(answer["value"].take()),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            // It is ended with its driver else.
            let _ = self.ask("DELETE", &self.session, &Value::Null);
        }
        self.driver.kill();
    }
}

/// Reads the port from what a driver says first.
fn port(mut said: impl BufRead) -> Result<u16> {
    let mut line = String::new();
    while said.read_line(&mut line).is_ok_and(|count| count > 0) {
        let port = line.trim_end().rsplit_once("started successfully on port ").map(|(_, port)| port);
        if let Some(port) = port.and_then(|port| port.trim_end_matches('.').parse().ok()) {
            return Ok(port);
        }
        line.clear();
    }
    Err(Error::new("chromedriver has ended before it named its port"))
}

/// Sends one request on its own connection and returns the body of the answer.
fn exchange(address: SocketAddr, method: &str, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(COMMAND_TIME_MAX))?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )?;
    let mut answer = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        answer.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; usize::min(length, ANSWER_BYTES_MAX)];
    answer.read_exact(&mut body)?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_opened_and_asked_and_the_browser_ends_with_its_test() {
        if !availability().or_skip_here() {
            return;
        }
        let browser = Browser::start().expect("a browser");
        browser.resize(390, 800).expect("room");
        browser.open("data:text/html,<title>door</title><input autofocus>").expect("a page");
        browser.press("ab").expect("keys");
        let processes = browser.processes().into_iter();
        assert!(processes.filter_map(|id| process::processor_time(id).ok()).sum::<Duration>() > Duration::ZERO);
        assert!(browser.picture().expect("a picture").starts_with(b"\x89PNG"));
        let seen = browser.run("return [document.title, document.querySelector('input').value, innerWidth]");
        assert_eq!(seen, Ok(json!(["door", "ab", 390])));
        let thrown = browser.run("throw new Error('no')").expect_err("it throws");
        assert!(thrown.to_string().contains("javascript error"), "{thrown}");
        let address = browser.address;
        drop(browser);
        TcpStream::connect(address).expect_err("the driver is gone");
    }
}
