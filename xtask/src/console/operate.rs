//! Tests of operator actions: log-in, search for a session, actions, and refusals.

use serde_json::json;

use super::Stage;
use super::browser::{Browser, key};
use super::desk::PASSWORD;

type Checked = Result<String, String>;

/// The result of a successful part without measurements.
const GOOD: Checked = Ok(String::new());
/// A JavaScript expression for the visible rows of the session table.
const ROWS: &str = "[...document.querySelectorAll('.grid-body .grid-row:not([hidden])')]";

/// Returns the address of a page about this session.
pub(super) fn of_session(stage: &Stage<'_>, name: &str, rest: &str) -> String {
    format!("{}/#/session/FIX.4.4%3AVENUE-%3E{name}{rest}", stage.desk.url)
}

/// Logs in as this user, and opens the address.
pub(super) fn enter(stage: &Stage<'_>, user: &str, url: &str) -> Result<(), String> {
    let browser = stage.browser;
    browser.open(&stage.desk.url)?;
    browser.forget()?;
    browser.open(url)?;
    browser.write("input[name=name]", user)?;
    browser.write("input[name=password]", PASSWORD)?;
    browser.click("button[type=submit]")?;
    browser.text(&format!("{user} · {user}"))
}

pub(super) fn log_in(stage: &Stage<'_>) -> Checked {
    let browser = stage.browser;
    browser.shape(1_200, 900, "light")?;
    browser.open(&stage.desk.url)?;
    browser.text("Log in")?;
    browser.picture("log-in")?;
    browser.press("Log in")?;
    browser.text("Write a name and a password")?;
    browser.write("input[name=name]", "operator")?;
    browser.write("input[name=password]", "a guess")?;
    browser.press("Log in")?;
    browser.text("the user name or the password is wrong")?;
    enter(stage, "operator", &stage.desk.url)?;
    browser.until("document.querySelector('.live').textContent === '● live'")?;
    browser.press("Log out")?;
    browser.text("You are logged out.")?;
    browser.open(&stage.desk.url)?;
    browser.until("document.querySelector('form.login')")?;
    GOOD
}

/// Tests the session table: sessions with problems come first, the filter works, and each column
/// can be sorted.
pub(super) fn table(stage: &Stage<'_>) -> Checked {
    let browser = stage.browser;
    enter(stage, "operator", &format!("{}/#/sessions", stage.desk.url))?;
    browser.until("document.querySelector('.count').textContent.includes('46 of 46')")?;
    // The session FULL fails when its store is full.
    browser.until(&format!("{}.includes('VENUE->FULL')", first()))?;
    browser.text("⚠ store failed")?;
    browser.text("Username(553) or Password(554) is wrong")?;
    browser.write("#filter", "wrong locked")?;
    browser.until("document.querySelector('.count').textContent.startsWith('1 of 46')")?;
    browser.keys(key::ESCAPE)?;
    browser.until("document.querySelector('.count').textContent.startsWith('46 of 46')")?;
    browser.click("#only")?;
    browser.until("/^[3-9] of 46/.test(document.querySelector('.count').textContent)")?;
    browser.click("#only")?;
    let keys = browser.run(
        "return [...document.querySelectorAll('.sort')].map((button) => button.dataset.sort)",
    )?;
    let keys = keys.as_array().cloned().unwrap_or_default();
    for name in keys.iter().filter_map(|key| key.as_str()) {
        browser.click(&format!("[data-sort={name}]"))?;
        browser.until(&format!(
            "document.querySelector('[data-sort={name}]').closest('[aria-sort]') &&
             document.querySelectorAll('[aria-sort]').length === 1"
        ))?;
    }
    browser.click("[data-sort=id]")?;
    browser.until(&format!("{}.includes('VENUE->BROKER')", first()))?;
    browser.click("[data-sort=id]")?;
    browser.until(&format!("{}.includes('VENUE->SECURE')", first()))?;
    browser.click("[data-sort=problem]")?;
    // The page computes rates from two answers, so rates appear with the second answer.
    browser.until(&format!("{ROWS}.some((row) => /[1-9]/.test(row.children[4].textContent))"))?;
    GOOD
}

/// Returns a script that reads the text of the topmost visible row, whatever the order of rows in
/// the document.
fn first() -> String {
    format!(
        "{ROWS}.sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)[0]
         .textContent"
    )
}

/// Tests that HTML in a counterparty's Text(58) is shown as text: in the table, on the session
/// page, and among the events.
pub(super) fn hostile_text(stage: &Stage<'_>) -> Checked {
    let browser = stage.browser;
    let is_text = |place: &str| {
        browser
            .text("closing early <img src=x onerror=")
            .map_err(|why| format!("{place}: {why}"))?;
        let owned = "document.title.includes('owned') || document.querySelector('img')";
        match browser.run(&format!("return Boolean({owned})"))?.as_bool() {
            Some(false) => Ok(()),
            _ => {
                Err(format!("{place}: the text of the counterparty has become a part of the page"))
            }
        }
    };
    enter(stage, "viewer", &format!("{}/#/sessions", stage.desk.url))?;
    browser.write("#filter", "left")?;
    is_text("the table")?;
    browser.open(&of_session(stage, "LEFT", ""))?;
    is_text("the session")?;
    browser.open(&format!("{}/#/events?session=LEFT", stage.desk.url))?;
    browser.text("VENUE->LEFT")?;
    browser.open(&of_session(stage, "LINE", "/messages?msg_type=B"))?;
    browser.text("58=<b>bold</b>")?;
    // The page's security policy makes the browser refuse to turn text into HTML.
    let tried = "try { document.body.innerHTML = '<img src=x>'; return 'done'; } \
                 catch (error) { return error.name; }";
    match browser.run(tried)?.as_str() {
        Some("TypeError") => {}
        other => return Err(format!("innerHTML is not forbidden: {other:?}")),
    }
    // The call reads the violation from the browser's log, so that later checks do not report it.
    let _ = browser.has_no_complaint();
    GOOD
}

pub(super) fn actions(stage: &Stage<'_>) -> Checked {
    let browser = stage.browser;
    enter(stage, "operator", &of_session(stage, "FIRM0003", ""))?;
    browser.until("document.querySelector('.standing').textContent.includes('Active')")?;
    browser.press("Send TestRequest(1) …")?;
    browser.write("dialog input[name=id]", "ARE-YOU-THERE")?;
    browser.press("Send TestRequest(1)")?;
    browser.text("Done: Send TestRequest(1) for FIX.4.4:VENUE->FIRM0003")?;
    browser.press("Send Heartbeat(0)")?;
    browser.text("Done: Send Heartbeat(0)")?;
    browser.press("Log out …")?;
    browser.write("dialog input[name=text]", "lunch")?;
    browser.picture("log-out-dialog")?;
    browser.press("Log out")?;
    browser.until("document.querySelector('.standing').textContent.includes('Disconnected')")?;
    browser.text("logged out by an operator")?;
    browser.press("Log on")?;
    browser.until("document.querySelector('.standing').textContent.includes('Active')")?;
    browser.open(&of_session(stage, "FIRM0003", "/messages?field=112%3DARE-YOU-THERE"))?;
    browser.text("TestRequest(1)")?;
    browser.open(&of_session(stage, "FIRM0003", "/messages?text=lunch"))?;
    browser.text("58=lunch")?;
    // The operator switches the initiator to another destination and back.
    browser.open(&of_session(stage, "BROKER", ""))?;
    browser.until("document.querySelectorAll('.destinations li').length === 2")?;
    browser.click(".destinations li:first-child button")?;
    browser.press("Connect")?;
    browser.text("Done: Connect to 127.0.0.1:1")?;
    GOOD
}

pub(super) fn dangerous(stage: &Stage<'_>) -> Checked {
    let browser = stage.browser;
    enter(stage, "administrator", &of_session(stage, "FIRM0008", ""))?;
    browser.press("⚠ Set next numbers …")?;
    browser.write("dialog input[name=next_in]", "77")?;
    browser.write("dialog input[name=confirm]", "FIX.4.4:VENUE->FIRM0009")?;
    browser.press("Set next numbers")?;
    browser.text("Nothing was done: that is not FIX.4.4:VENUE->FIRM0008")?;
    browser.picture("dangerous-dialog")?;
    let number = "document.querySelector('[data-fact=next_in]').textContent";
    browser.until(&format!("{number} === '1'"))?;
    browser.write("dialog input[name=confirm]", "FIX.4.4:VENUE->FIRM0008")?;
    browser.press("Set next numbers")?;
    browser.text("Done: Set next numbers")?;
    browser.until(&format!("{number} === '77'"))?;
    GOOD
}

/// Tests that the page shows the reason and the numbers of a refused action, and keeps the form
/// open.
pub(super) fn refused(stage: &Stage<'_>) -> Checked {
    let browser = stage.browser;
    enter(stage, "operator", &of_session(stage, "FIRM0008", ""))?;
    browser.press("Send ResendRequest(2) …")?;
    browser.write("dialog input[name=begin]", "x")?;
    browser.press("Send ResendRequest(2)")?;
    browser.text("BeginSeqNo(7) is a whole number")?;
    browser.write("dialog input[name=begin]", "1")?;
    browser.press("Send ResendRequest(2)")?;
    browser.until(
        "/code 1\\d{3}, HTTP 409/.test(document.querySelector('dialog .error').textContent)",
    )?;
    browser.press("Cancel")?;
    browser.press("Send Heartbeat(0)")?;
    browser.until("/Not done: .*HTTP 409/.test(document.querySelector('#said').textContent)")?;
    browser.open(&format!("{}/#/session/none", stage.desk.url))?;
    browser.text("no session is named none (HTTP 404)")?;
    GOOD
}

/// Returns the total number of session actions, and how many of them are disabled for this user.
fn off(browser: &Browser) -> Result<(u64, u64), String> {
    browser.until("document.querySelector('[data-action=send]')")?;
    let count = |rest: &str| {
        let all = format!("return document.querySelectorAll('[data-action]{rest}').length");
        Ok::<_, String>(browser.run(&all)?.as_u64().unwrap_or_default())
    };
    Ok((count("")?, count(":disabled")?))
}

pub(super) fn roles(stage: &Stage<'_>) -> Checked {
    let browser = stage.browser;
    for (user, expected, why) in [
        ("viewer", (16, 16), "Your role, viewer, may only look"),
        ("operator", (16, 7), "Actions with ⚠ need the role administrator; yours is operator."),
        ("administrator", (16, 0), ""),
    ] {
        enter(stage, user, &of_session(stage, "FIRM0003", ""))?;
        let found = off(browser)?;
        if found != expected {
            return Err(format!("{user}: {found:?} of actions are off, not {expected:?}"));
        }
        browser.text(why)?;
        browser.open(&format!("{}/#/engine", stage.desk.url))?;
        let is_off = "document.querySelector('[data-action=stop]').disabled";
        browser.until(&format!("{is_off} === {}", user != "administrator"))?;
    }
    GOOD
}

/// Tests that only an administrator can change the event level and begin new log files.
pub(super) fn levels(stage: &Stage<'_>) -> Checked {
    let browser = stage.browser;
    let (events, engine) =
        (format!("{}/#/events", stage.desk.url), format!("{}/#/engine", stage.desk.url));
    enter(stage, "operator", &events)?;
    browser.until("document.querySelector('#event-levels').value === 'info'")?;
    browser.until("document.querySelector('#event-levels').disabled")?;
    enter(stage, "administrator", &events)?;
    browser.until("document.querySelector('#event-levels').value === 'info'")?;
    browser.write("#event-levels", "loud")?;
    browser.press("Set")?;
    browser.text("`loud` is not a level")?;
    browser.write("#event-levels", "warn,transfix::link=info")?;
    browser.press("Set")?;
    browser.text("Events: warn,transfix::link=info until the next start or reload")?;
    browser.picture("levels")?;
    browser.open(&engine)?;
    browser.press("Rotate logs …")?;
    browser.press("Rotate")?;
    browser.text("files of the protocol logs")?;
    GOOD
}

/// Tests the way from the log-in to an action and back with the keyboard only.
pub(super) fn keyboard(stage: &Stage<'_>) -> Checked {
    let browser = stage.browser;
    browser.open(&stage.desk.url)?;
    browser.forget()?;
    browser.open(&stage.desk.url)?;
    browser.until("document.activeElement.name === 'name'")?;
    browser.keys(&format!("operator{}{PASSWORD}{}", key::TAB, key::ENTER))?;
    browser.until("document.activeElement.classList.contains('grid')")?;
    browser.until(&format!("{ROWS}.length > 5"))?;
    browser.keys(&format!("{}{}{}", key::END, key::HOME, key::DOWN))?;
    browser.until("document.querySelector('.grid-row.active[aria-selected=true]')")?;
    browser.keys("?")?;
    browser.text("goes to the filter")?;
    browser.picture("keys")?;
    browser.keys(key::ESCAPE)?;
    browser.until("!document.querySelector('dialog')")?;
    browser.keys("/firm0005")?;
    browser.until("document.querySelector('#filter').value === 'firm0005'")?;
    browser.keys(&format!("{}{}", key::ENTER, key::ENTER))?;
    browser.until("document.querySelector('h1').textContent === 'FIX.4.4:VENUE->FIRM0005'")?;
    let tab_to = |what: &str| {
        for _ in 0..60 {
            let found = browser.run(&format!("return Boolean(document.activeElement{what})"))?;
            if found == json!(true) {
                return Ok(());
            }
            browser.keys(key::TAB)?;
        }
        Err(format!("Tab does not come to {what}"))
    };
    tab_to(".dataset.action === 'test_request'")?;
    let outline = "getComputedStyle(document.activeElement).outlineStyle === 'solid'";
    browser.until(outline)?;
    browser.keys(key::ENTER)?;
    browser.until("document.activeElement.name === 'id'")?;
    browser.keys(key::ENTER)?;
    browser.text("Done: Send TestRequest(1)")?;
    // When the dialog closes, the focus returns to the button that opened the dialog.
    browser.until("document.activeElement.dataset.action === 'test_request'")?;
    browser.keys(key::ESCAPE)?;
    browser.until("location.hash === '#/sessions'")?;
    browser.until("document.querySelector('#filter').value === 'firm0005'")?;
    browser.keys("/")?;
    browser.keys(key::ESCAPE)?;
    browser.until("document.querySelector('#filter').value === ''")?;
    browser.open(&of_session(stage, "LINE", "/messages"))?;
    browser.until("document.querySelectorAll('tr.message').length > 10")?;
    tab_to(".classList.contains('message')")?;
    browser.keys(&format!("{}{}", key::DOWN, key::ENTER))?;
    browser.until("document.querySelector('dialog.one-message .tree .name')")?;
    browser.keys(key::ESCAPE)?;
    browser.until("!document.querySelector('dialog')")?;
    browser.until("document.activeElement.classList.contains('message')")?;
    GOOD
}

pub(super) fn expired(stage: &Stage<'_>) -> Checked {
    let browser = stage.browser;
    enter(stage, "viewer", &of_session(stage, "FIRM0003", ""))?;
    browser.text("Latency")?;
    browser.forget()?;
    browser.text("Your log-in has ended. Log in again")?;
    browser.write("input[name=name]", "viewer")?;
    browser.write("input[name=password]", PASSWORD)?;
    browser.press("Log in")?;
    browser.until("document.querySelector('h1').textContent === 'FIX.4.4:VENUE->FIRM0003'")?;
    GOOD
}

/// Tests that a session is removed after the user types its name.
pub(super) fn remove(stage: &Stage<'_>) -> Checked {
    let browser = stage.browser;
    enter(stage, "administrator", &of_session(stage, "FIRM0007", ""))?;
    browser.press("⚠ Remove …")?;
    browser.write("dialog input[name=confirm]", "FIX.4.4:VENUE->FIRM0008")?;
    browser.press("Remove")?;
    browser.text("Nothing was done: that is not FIX.4.4:VENUE->FIRM0007")?;
    browser.write("dialog input[name=confirm]", "FIX.4.4:VENUE->FIRM0007")?;
    browser.press("Remove")?;
    browser.text("Done: FIX.4.4:VENUE->FIRM0007: removed")?;
    browser.until("document.querySelector('.count').textContent.includes('45 of 45')")?;
    GOOD
}

/// Tests that the engine stops only after the right confirmation word, and that the page then
/// reports the stop.
pub(super) fn stop(stage: &Stage<'_>) -> Checked {
    let browser = stage.browser;
    enter(stage, "administrator", &format!("{}/#/engine", stage.desk.url))?;
    browser.text("● ready").or_else(|_| browser.text("✕ not ready"))?;
    browser.press("Reload …")?;
    browser.press("Reload")?;
    browser.text("Reloaded: the settings file is in force")?;
    browser.press("⚠ Stop …")?;
    browser.write("dialog input[name=confirm]", "stopp")?;
    browser.press("Stop")?;
    browser.text("Nothing was done: that is not stop")?;
    browser.write("dialog input[name=confirm]", "stop")?;
    browser.press("Stop")?;
    browser.until("document.querySelector('.banner').textContent.includes('cannot be reached')")?;
    browser.text("trying again every 2 s")?;
    browser.picture("gone")?;
    GOOD
}
