//! Recognizes settings files of other engines that no command of `transfix` can read, so that users
//! get advice.

/// The error about a settings file of Fix8.
const FIX8: &str = "the file has settings of Fix8, which no command reads; write Transfix \
                    settings: `transfix settings reference login_retries` shows the key for \
                    each Fix8 setting; the page \"Coming from FIX Antenna or Fix8\" of the book \
                    explains the rest";

/// The error about a settings file of FIX Antenna.
const ANTENNA: &str = "the file has settings of FIX Antenna, which no command reads; write \
                       Transfix settings: `transfix settings reference heartbeatInterval` shows \
                       the key for each FIX Antenna setting; the page \"Coming from FIX Antenna \
                       or Fix8\" of the book explains the rest";

/// Returns advice if the text is a settings file of an engine that no command of `transfix` can
/// read.
pub fn settings_of_another(text: &str) -> Option<&'static str> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with('<') {
        return text.contains("<fix8").then_some(FIX8);
    }
    let keys = ["sessionIDs", "fa.home", "EngineRoot", "DictionariesFilesList"];
    let stems = ["sessions.", "Session.Default."];
    let is_theirs = |line: &str| {
        let key = line.split_once('=').map_or("", |(key, _)| key.trim());
        keys.contains(&key) || stems.iter().any(|stem| key.starts_with(stem))
    };
    text.lines().any(is_theirs).then_some(ANTENNA)
}
