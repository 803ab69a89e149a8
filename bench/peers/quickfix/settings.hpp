// The command line of both programs and the QuickFIX settings it stands for.
#pragma once

#include <SessionSettings.h>

#include <ctime>
#include <fstream>
#include <initializer_list>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

namespace peer {

// `--key value` pairs; an unknown or incomplete option is an error.
class Options {
public:
  Options(int argc, char** argv, std::map<std::string, std::string> defaults)
    : values_(std::move(defaults)) {
    for (int i = 1; i < argc; i += 2) {
      const std::string key = argv[i];
      if (key.compare(0, 2, "--") != 0 || values_.count(key.substr(2)) == 0)
        throw std::invalid_argument("unknown option " + key);
      if (i + 1 >= argc) throw std::invalid_argument("no value for " + key);
      values_[key.substr(2)] = argv[i + 1];
    }
  }

  const std::string& text(const std::string& key) const { return values_.at(key); }
  long number(const std::string& key) const {
    std::size_t end = 0;
    const std::string& value = text(key);
    const long number = std::stol(value, &end);
    if (end != value.size()) throw std::invalid_argument("not a number: --" + key + " " + value);
    return number;
  }
  bool yes(const std::string& key) const {
    const std::string& value = text(key);
    if (value != "yes" && value != "no")
      throw std::invalid_argument("--" + key + " is yes or no, not " + value);
    return value == "yes";
  }
  bool is(const std::string& key, const char* value) const { return text(key) == value; }

  // The value, which must be one of those.
  const std::string& one_of(const std::string& key,
                            std::initializer_list<const char*> values) const {
    for (const char* value : values)
      if (is(key, value)) return text(key);
    throw std::invalid_argument("--" + key + " cannot be " + text(key));
  }

private:
  std::map<std::string, std::string> values_;
};

// "FIX.4.4" -> 44, "FIXT.1.1" with DefaultApplVerID(1137) 9 -> 52.
inline int version_of(const std::string& begin_string, const std::string& appl_ver) {
  if (begin_string.compare(0, 4, "FIXT") != 0)
    return (begin_string[4] - '0') * 10 + (begin_string[6] - '0');
  return appl_ver == "9" ? 52 : appl_ver == "8" ? 51 : 50;
}

inline std::string dictionary_file(int version) {
  switch (version) {
    case 50: return "FIX50.xml";
    case 51: return "FIX50SP1.xml";
    case 52: return "FIX50SP2.xml";
    default: return "FIX" + std::to_string(version) + ".xml";
  }
}

// The lines that name the dictionaries: a folder with the usual file names, or one file
// (FIX.4.x only).
inline std::string dictionary_lines(const Options& options) {
  const std::string path = options.text("dictionary");
  const std::string begin_string = options.text("begin-string");
  const bool fixt = begin_string.compare(0, 4, "FIXT") == 0;
  if (path.empty()) {
    if (options.yes("validate")) throw std::invalid_argument("--validate yes needs --dictionary");
    return "UseDataDictionary=N\n";
  }
  const int version = version_of(begin_string, options.text("appl-ver"));
  const bool one_file = path.size() > 4 && path.compare(path.size() - 4, 4, ".xml") == 0;
  const std::string file = one_file ? path : path + "/" + dictionary_file(version);
  if (!std::ifstream(file)) throw std::invalid_argument("no dictionary " + file);
  if (!fixt) return "UseDataDictionary=Y\nDataDictionary=" + file + "\n";
  if (one_file) throw std::invalid_argument("FIXT.1.1 needs a folder of dictionaries");
  return "UseDataDictionary=Y\nTransportDataDictionary=" + path
    + "/FIXT11.xml\nAppDataDictionary=" + file + "\n";
}

// QuickFIX 1.15 knows no session without an end: a day that begins twelve hours ago keeps the daily
// reset away from every run.
inline std::string session_hours() {
  const std::time_t start = std::time(nullptr) - 12 * 3600;
  std::tm utc;
  gmtime_r(&start, &utc);
  char hour[16];
  std::strftime(hour, sizeof hour, "%H:00:00", &utc);
  return std::string("StartTime=") + hour + "\nEndTime=" + hour + "\n";
}

// Switches off the checks that need no dictionary.
inline const char* unchecked() {
  return "ValidateFieldsOutOfOrder=N\nValidateFieldsHaveValues=N\n"
         "ValidateUserDefinedFields=N\nCheckLatency=N\n";
}

// The only session of a settings file, with what it inherits.
inline FIX::Dictionary only_session(const FIX::SessionSettings& settings) {
  if (settings.size() != 1) throw std::invalid_argument("--settings: one [SESSION], please");
  return settings.get(*settings.getSessions().begin());
}

// Settings of one session; `validate no` switches off the dictionary and every optional check.
inline FIX::SessionSettings make_settings(const Options& options) {
  const bool validate = options.yes("validate");
  const bool acceptor = options.is("role", "acceptor");
  if (!acceptor && !options.is("role", "initiator"))
    throw std::invalid_argument("--role is acceptor or initiator");
  std::ostringstream text;
  text << "[DEFAULT]\n"
       << "ConnectionType=" << options.text("role") << "\n"
       << session_hours()
       << "ReconnectInterval=1\n"
       << "HeartBtInt=" << options.number("heartbeat") << "\n"
       << "SocketNodelay=Y\n"
       << "SocketReuseAddress=Y\n";
  if (acceptor)
    text << "SocketAcceptPort=" << options.number("port") << "\n";
  else
    text << "SocketConnectHost=" << options.text("host") << "\n"
         << "SocketConnectPort=" << options.number("port") << "\n";
  if (!options.is("store", "memory")) text << "FileStorePath=" << options.text("store") << "\n";
  text << "[SESSION]\n"
       << "BeginString=" << options.text("begin-string") << "\n"
       << "SenderCompID=" << options.text("sender") << "\n"
       << "TargetCompID=" << options.text("target") << "\n";
  if (options.text("begin-string").compare(0, 4, "FIXT") == 0)
    text << "DefaultApplVerID=" << options.text("appl-ver") << "\n";
  text << (validate ? dictionary_lines(options) : std::string("UseDataDictionary=N\n"));
  if (!validate) text << unchecked();
  std::istringstream stream(text.str());
  return FIX::SessionSettings(stream);
}

// `now` as QuickFIX wants it for TransactTime(60): milliseconds, UTC.
inline FIX::UtcTimeStamp now() { return FIX::UtcTimeStamp(); }

}  // namespace peer
