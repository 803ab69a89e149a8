//! A browser controlled by WebDriver: Chromium through chromedriver.
//!
//! WebDriver is a protocol of JSON over HTTP. This module implements only the commands that the
//! test needs.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::pictures;

/// The time limit for an expected change of the page, in milliseconds.
const LONG_MS: u64 = 30_000;
/// The JSON key that identifies an element in the WebDriver protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// The WebDriver codes of keys that produce no character.
pub(super) mod key {
    pub(crate) const ENTER: &str = "\u{e007}";
    pub(crate) const ESCAPE: &str = "\u{e00c}";
    pub(crate) const DOWN: &str = "\u{e015}";
    pub(crate) const TAB: &str = "\u{e004}";
    pub(crate) const END: &str = "\u{e010}";
    pub(crate) const HOME: &str = "\u{e011}";
}

/// A running browser with one open page.
pub(super) struct Browser {
    driver: Child,
    agent: ureq::Agent,
    session: String,
}

impl Browser {
    pub(super) fn start(is_shown: bool) -> Result<Self, String> {
        let chromium = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
        let chromium = chromium.into_iter().find(|path| fs::exists(path).unwrap_or(false));
        let missing = "it is in Debian's packages chromium and chromium-driver";
        let chromium = chromium.ok_or_else(|| format!("there is no chromium; {missing}"))?;
        let driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut driver = driver.map_err(|error| format!("chromedriver: {error}; {missing}"))?;
        let port = port(&mut driver)?;
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_millis(2 * LONG_MS)))
            .http_status_as_error(false);
        let agent = config.build().into();
        let mut browser = Self { driver, agent, session: format!("http://127.0.0.1:{port}") };
        // Containers run the test as root, where Chromium cannot use its sandbox and /dev/shm is
        // too small.
        let mut args = vec!["--no-sandbox", "--disable-dev-shm-usage", "--window-size=1200,900"];
        if !is_shown {
            args.push("--headless=new");
        }
        let options = json!({ "binary": chromium, "args": args });
        let always = json!({
            "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL" },
            "timeouts": { "script": LONG_MS + 5_000 },
        });
        let body = json!({ "capabilities": { "alwaysMatch": always } });
        let begun = browser.ask("POST", "/session", Some(&body))?;
        let id = begun["sessionId"].as_str().ok_or("chromedriver gives no session")?;
        browser.session += &format!("/session/{id}");
        Ok(browser)
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let wrong = |error: ureq::Error| format!("chromedriver: {path}: {error}");
        let url = format!("{}{path}", self.session);
        let answer = match (method, body) {
            ("POST", body) => {
                let body = body.map_or_else(|| "{}".to_owned(), Value::to_string);
                self.agent.post(&url).content_type("application/json").send(&body)
            }
            ("DELETE", _) => self.agent.delete(&url).call(),
            _ => self.agent.get(&url).call(),
        };
        let mut answer = answer.map_err(wrong)?;
        let text =
            answer.body_mut().with_config().limit(64 << 20).read_to_string().map_err(wrong)?;
        let answer: Value =
            serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
        let value = &answer["value"];
        match value["error"].as_str() {
            Some(error) => {
                let message = value["message"].as_str().unwrap_or_default();
                let message = message.lines().next().unwrap_or_default();
                Err(format!("{path}: {error}: {message}"))
            }
            None => Ok(value.clone()),
        }
    }

    /// Opens an address as a newly loaded page.
    pub(super) fn open(&self, url: &str) -> Result<(), String> {
        // A change of the fragment alone would not reload the page, so an empty page is opened
        // first.
        self.ask("POST", "/url", Some(&json!({ "url": "about:blank" })))?;
        self.ask("POST", "/url", Some(&json!({ "url": url }))).map(drop)
    }

    /// Runs a script in the page and returns its value.
    pub(super) fn run(&self, script: &str) -> Result<Value, String> {
        let body = json!({ "script": script, "args": [] });
        self.ask("POST", "/execute/sync", Some(&body))
    }

    /// Runs an asynchronous script in the page, and returns the value that the script passes to
    /// `done`.
    pub(super) fn later(&self, script: &str) -> Result<Value, String> {
        let script = format!("const done = arguments[arguments.length - 1];\n{script}");
        self.ask("POST", "/execute/async", Some(&json!({ "script": script, "args": [] })))
    }

    /// Waits until a JavaScript expression is true in the page.
    pub(super) fn until(&self, what: &str) -> Result<(), String> {
        let script = format!(
            "const end = performance.now() + {LONG_MS};
             const look = () => {{
               let found = false;
               try {{ found = Boolean({what}); }} catch {{}}
               if (found) done('');
               else if (performance.now() > end) done('it has not come about');
               else setTimeout(look, 25);
             }};
             look();"
        );
        let said = self.later(&script)?;
        let (said, body) = (said.as_str().unwrap_or_default(), "document.body.innerText");
        if said.is_empty() {
            return Ok(());
        }
        let page = self.run(&format!("return {body}.slice(0, 1500)"))?;
        Err(format!("{said}: {what}\nthe page says: {}", page.as_str().unwrap_or_default()))
    }

    /// Waits until the page contains this text.
    pub(super) fn text(&self, text: &str) -> Result<(), String> {
        self.until(&format!("document.body.innerText.includes({})", json!(text)))
    }

    fn element(&self, css: &str) -> Result<String, String> {
        self.until(&format!("document.querySelector({})", json!(css)))?;
        let body = json!({ "using": "css selector", "value": css });
        let found = self.ask("POST", "/element", Some(&body))?;
        let id = found[ELEMENT].as_str().ok_or_else(|| format!("{css}: no element"))?;
        Ok(id.to_owned())
    }

    /// Clicks an element as a user does with the mouse. If another element covers it, returns an
    /// error.
    pub(super) fn click(&self, css: &str) -> Result<(), String> {
        let element = self.element(css)?;
        let clicked = self.ask("POST", &format!("/element/{element}/click"), None);
        clicked.map(drop).map_err(|why| format!("{css}: {why}"))
    }

    /// Clicks the button, link or tab with this text.
    pub(super) fn press(&self, text: &str) -> Result<(), String> {
        let found = format!(
            "[...document.querySelectorAll('dialog[open] button, button, a')].find((one) => \
             one.textContent.trim() === {} && one.getClientRects().length > 0 && \
             (!document.querySelector('dialog[open]') || one.closest('dialog')))",
            json!(text)
        );
        self.until(&found)?;
        self.run(&format!(
            "document.querySelector('[data-pressed]')?.removeAttribute('data-pressed');
             {found}.setAttribute('data-pressed', '')"
        ))?;
        self.click("[data-pressed]")
    }

    /// Replaces the text of an input field.
    pub(super) fn write(&self, css: &str, text: &str) -> Result<(), String> {
        let element = self.element(css)?;
        self.ask("POST", &format!("/element/{element}/clear"), None)?;
        let body = json!({ "text": text });
        self.ask("POST", &format!("/element/{element}/value"), Some(&body)).map(drop)
    }

    /// Selects an entry of a list by its value, as a user does with the keyboard.
    pub(super) fn choose(&self, css: &str, value: &str) -> Result<(), String> {
        self.element(css)?;
        let script = format!(
            "const list = document.querySelector({});
             list.value = {};
             list.dispatchEvent(new Event('change', {{ bubbles: true }}));",
            json!(css),
            json!(value)
        );
        self.run(&script).map(drop)
    }

    /// Types keys into the element that has the focus.
    pub(super) fn keys(&self, keys: &str) -> Result<(), String> {
        let actions: Vec<_> = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key })))
            .collect();
        let source = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.ask("POST", "/actions", Some(&json!({ "actions": [source] }))).map(drop)
    }

    /// Sends a command of Chromium's DevTools protocol.
    fn chromium(&self, command: &str, params: &Value) -> Result<Value, String> {
        let body = json!({ "cmd": command, "params": params });
        self.ask("POST", "/goog/cdp/execute", Some(&body))
    }

    /// Sets the size of the page and the color scheme, which is `light` or `dark`.
    pub(super) fn shape(&self, width: u32, height: u32, colours: &str) -> Result<(), String> {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1,
            "mobile": false });
        self.chromium("Emulation.setDeviceMetricsOverride", &size)?;
        let feature = json!({ "name": "prefers-color-scheme", "value": colours });
        self.chromium("Emulation.setEmulatedMedia", &json!({ "features": [feature] }))?;
        Ok(())
    }

    /// Saves a screenshot as `target/console/NAME.png`.
    pub(super) fn picture(&self, name: &str) -> Result<(), String> {
        let picture = self.ask("GET", "/screenshot", None)?;
        let picture = STANDARD.decode(picture.as_str().unwrap_or_default());
        let picture = picture.map_err(|error| error.to_string())?;
        let path = pictures().join(format!("{name}.png"));
        fs::write(&path, picture).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Deletes the stored login, so that the next page asks for it.
    pub(super) fn forget(&self) -> Result<(), String> {
        self.ask("DELETE", "/cookie", None).map(drop)
    }

    /// Checks that the browser has logged no security violation and no script error. Logged HTTP
    /// error statuses are allowed.
    pub(super) fn has_no_complaint(&self) -> Result<(), String> {
        let log = self.ask("POST", "/se/log", Some(&json!({ "type": "browser" })))?;
        let all = log.as_array().map_or(&[][..], Vec::as_slice).iter();
        let texts = all.filter_map(|entry| entry["message"].as_str());
        let bad = texts.filter(|text| !text.contains("Failed to load resource"));
        match bad.collect::<Vec<_>>()[..] {
            [] => Ok(()),
            [first, ..] => Err(format!("the browser complains: {first}")),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The end of the WebDriver session also closes the browser.
        let _ = self.ask("DELETE", "", None);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Returns the port on which chromedriver listens, which it chooses itself.
fn port(driver: &mut Child) -> Result<u16, String> {
    let output = driver.stdout.take().ok_or("chromedriver has no output")?;
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    let port = lines.find_map(|line| {
        let (_, port) = line.rsplit_once("started successfully on port ")?;
        port.trim_end_matches('.').parse().ok()
    });
    // The thread reads the remaining output, and ends with chromedriver.
    std::thread::spawn(move || lines.for_each(drop));
    port.ok_or_else(|| "chromedriver does not say its port".to_owned())
}
