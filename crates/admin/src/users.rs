//! Users of the administration in one file: people with passwords, programs with tokens.
//!
//! The file contains only hashes: Argon2 of passwords and SHA-256 of tokens. SHA-256 suffices for
//! tokens, because each token has 256 random bits.

use std::fmt::{self, Write as _};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use transfix::{Actor, Admin, Subnet};

/// Rights of a user or a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// May read.
    Viewer,
    /// May also log sessions on and off, disconnect them, and send messages of the session layer.
    Operator,
    /// May do everything: also set and reset sequence numbers, send messages, reload and stop.
    Administrator,
}

impl Role {
    /// Returns the name of the role as written in the users file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Administrator => "administrator",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Viewer, Self::Operator, Self::Administrator];
        let found = all.into_iter().find(|role| role.as_str() == text);
        found.ok_or_else(|| {
            format!(
                "there is no role `{text}`; write viewer, operator or \
                                     administrator"
            )
        })
    }
}

/// A person who logs in with a password.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// Name of the user, also written into the audit.
    pub name: String,
    /// Role.
    pub role: Role,
    /// Argon2 hash of the password, as a PHC string.
    pub password_hash: String,
    /// Addresses and subnets from which the user may log in, such as `10.1.0.0/16`; if empty, from
    /// all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_from: Vec<String>,
}

impl User {
    /// Returns true if the user may log in from this address.
    pub(crate) fn may_come_from(&self, address: IpAddr) -> bool {
        let has = |text: &String| Subnet::parse(text).is_ok_and(|subnet| subnet.has(address));
        self.allow_from.is_empty() || self.allow_from.iter().any(has)
    }
}

/// A valid hash that no password matches. It is checked for unknown names, so that their check
/// takes as long as that of known names.
pub(crate) const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA\
                                 $AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// A program that sends a token with each request.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// Name of the token, also written into the audit.
    pub name: String,
    /// Role.
    pub role: Role,
    /// SHA-256 of the token, in hexadecimal digits.
    pub sha256: String,
}

/// The content of the users file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Users {
    /// People.
    #[serde(default, rename = "user")]
    pub users: Vec<User>,
    /// Programs.
    #[serde(default, rename = "token")]
    pub tokens: Vec<Token>,
}

const HEAD: &str = "# Users of the administration of Transfix. Written by `transfix admin`.\n\n";

impl Users {
    /// Reads the users file at `path`.
    ///
    /// # Errors
    /// Returns an error if the file is unreadable or invalid, or writable for others than its
    /// owner.
    pub fn load(path: &Path) -> Result<Self, String> {
        let wrong = |why: &dyn fmt::Display| format!("{}: {why}", path.display());
        let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
        let mode = fs::metadata(path).map_err(|error| wrong(&error))?.mode();
        if mode & 0o022 != 0 {
            return Err(wrong(
                &"others may write the file, and so could become administrators; run \
                               chmod go-w on the file",
            ));
        }
        let users: Self = toml::from_str(&text).map_err(|error| wrong(&error))?;
        for (n, name) in users.names().enumerate() {
            check_name(name).map_err(|why| wrong(&why))?;
            if users.names().skip(n + 1).any(|other| other == name) {
                return Err(wrong(&format!("`{name}` is there twice")));
            }
        }
        for text in users.users.iter().flat_map(|user| &user.allow_from) {
            Subnet::parse(text).map_err(|why| wrong(&format!("allow_from: {why}")))?;
        }
        Ok(users)
    }

    /// Writes the users file atomically, readable only by its owner.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub fn save(&self, path: &Path) -> Result<(), String> {
        let wrong = |error: io::Error| format!("{}: {error}", path.display());
        let text = toml::to_string(self).map_err(|error| wrong(io::Error::other(error)))?;
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside);
        let mut file = file.map_err(wrong)?;
        file.write_all(HEAD.as_bytes()).map_err(wrong)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(wrong)?;
        fs::rename(&beside, path).map_err(wrong)
    }

    /// Returns the names of all users and tokens.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let users = self.users.iter().map(|user| &*user.name);
        users.chain(self.tokens.iter().map(|token| &*token.name))
    }

    /// Adds a user, or replaces the role and the password of an existing user.
    ///
    /// # Errors
    /// Returns an error if the name or the password is invalid, or if a token has the name.
    pub fn set_user(&mut self, name: &str, role: Role, password: &str) -> Result<(), String> {
        check_name(name)?;
        if self.tokens.iter().any(|token| token.name == name) {
            return Err(format!("a token is named `{name}`"));
        }
        if password.chars().count() < PASSWORD_MIN {
            return Err(format!("a password must have at least {PASSWORD_MIN} characters"));
        }
        let password_hash = transfix::hash_password(password)?.reveal().to_owned();
        let before = self.users.iter().find(|user| user.name == name);
        // A new password keeps the allowed addresses.
        let allow_from = before.map_or_else(Vec::new, |user| user.allow_from.clone());
        self.users.retain(|user| user.name != name);
        self.users.push(User { name: name.to_owned(), role, password_hash, allow_from });
        Ok(())
    }

    /// Returns for each user and token: name, hash of the password or token, and a description of
    /// the rights.
    fn described(&self) -> impl Iterator<Item = (&str, String, String)> {
        let users = self.users.iter().map(|user| {
            let mut from = user.allow_from.join(" ");
            if !from.is_empty() {
                from.insert_str(0, " from ");
            }
            (&*user.name, user.password_hash.clone(), format!("user, {}{from}", user.role))
        });
        let tokens = self
            .tokens
            .iter()
            .map(|token| (&*token.name, token.sha256.clone(), format!("token, {}", token.role)));
        users.chain(tokens)
    }

    /// Creates a token and returns it. Only its hash is stored, so the token cannot be read again.
    ///
    /// # Errors
    /// Returns an error if the name is invalid or in use, or if the system has no random numbers.
    pub fn add_token(&mut self, name: &str, role: Role) -> Result<String, String> {
        check_name(name)?;
        if self.names().any(|other| other == name) {
            return Err(format!("`{name}` is there already"));
        }
        let token = format!("tfx_{}", random_hex().map_err(|error| error.to_string())?);
        self.tokens.push(Token { name: name.to_owned(), role, sha256: sha256_hex(&token) });
        Ok(token)
    }

    /// Removes a user or a token. Returns true if the name existed.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.users.len() + self.tokens.len();
        self.users.retain(|user| user.name != name);
        self.tokens.retain(|token| token.name != name);
        before > self.users.len() + self.tokens.len()
    }
}

/// Minimum length of a password, in characters.
const PASSWORD_MIN: usize = 10;

/// Checks that a name has only plain characters, because logs and the audit contain names
/// unescaped.
fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_alphanumeric() || "._-@".contains(c);
    if name.is_empty() || name.chars().count() > 64 || !name.chars().all(is_plain) {
        return Err(format!(
            "a name must have 1 to 64 letters, digits, `.`, `_`, `-` or `@`, unlike `{name}`"
        ));
    }
    Ok(())
}

/// Returns the SHA-256 hash of a text, in hexadecimal digits.
pub(crate) fn sha256_hex(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// Returns 256 random bits in hexadecimal digits.
pub(crate) fn random_hex() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The users file of a running server. A changed file is read again, so that removed users lose
/// access.
pub(crate) struct UsersFile {
    path: PathBuf,
    read: Mutex<Read>,
    /// Administration whose audit records each change of the file; `None` for a list without a
    /// file.
    admin: Option<Admin>,
}

struct Read {
    stamp: Stamp,
    users: Arc<Users>,
}

/// Modification time, length and inode of the file; a different stamp shows that the file has
/// changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp(i64, i64, u64, u64);

impl UsersFile {
    pub(crate) fn open(path: &Path, admin: &Admin) -> Result<Self, String> {
        let stamp = stamp(path).map_err(|error| {
            let path = path.display();
            format!(
                "{path}: {error}; `transfix admin user add --file {path} NAME` creates the file"
            )
        })?;
        let users = Arc::new(Users::load(path)?);
        let read = Mutex::new(Read { stamp, users: Arc::clone(&users) });
        let file = Self { path: path.to_owned(), read, admin: Some(admin.clone()) };
        // The audit has such a line for each start, so that a comparison shows changes made while
        // the server was stopped.
        let all: Vec<_> =
            users.described().map(|(name, _, what)| format!("{name}: {what}")).collect();
        file.note("users at the start", &all.join(", "))?;
        Ok(file)
    }

    /// Writes a line about the users file into the audit.
    fn note(&self, what: &str, said: &str) -> Result<(), String> {
        let Some(admin) = &self.admin else { return Ok(()) };
        let actor = Actor::new("file of users", self.path.display().to_string());
        admin.note(&actor, what, Ok(said)).map_err(|error| error.to_string())
    }

    /// Creates a list without users that has no file.
    #[cfg(feature = "rig")]
    pub(crate) fn of_nobody() -> Self {
        let read = Read { stamp: Stamp(0, 0, 0, 0), users: Arc::default() };
        Self { path: PathBuf::new(), read: Mutex::new(read), admin: None }
    }

    /// Returns the users that the file contains now. Returns no users if the file is unreadable, or
    /// if the audit cannot record a change.
    pub(crate) fn now(&self) -> Arc<Users> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stamp(&self.path).unwrap_or(Stamp(0, 0, 0, 0));
        if now != read.stamp {
            let users = Users::load(&self.path).unwrap_or_else(|why| {
                tracing::error!(
                    why,
                    "nobody may use the administration, because its users file \
                                      cannot be read"
                );
                Users::default()
            });
            let changes = changes(&read.users, &users).join(", ");
            if !changes.is_empty() && self.note("users changed", &changes).is_err() {
                // The remembered stamp is not updated, so the next call tries again.
                return Arc::default();
            }
            *read = Read { stamp: now, users: Arc::new(users) };
        }
        Arc::clone(&read.users)
    }
}

/// Describes the changes from the users `from` to the users `to`.
fn changes(from: &Users, to: &Users) -> Vec<String> {
    let before: Vec<_> = from.described().collect();
    let after: Vec<_> = to.described().collect();
    let find = |all: &[(&str, String, String)], name: &str| {
        all.iter()
            .find(|(other, ..)| *other == name)
            .map(|(_, key, what)| (key.clone(), what.clone()))
    };
    let mut changes = Vec::new();
    for (name, key, what) in &after {
        match find(&before, name) {
            None => changes.push(format!("{name} added: {what}")),
            Some(old) if old.1 != *what => changes.push(format!("{name} changed: {what}")),
            Some(old) if old.0 != *key => changes.push(format!("{name} has another secret")),
            Some(_) => {}
        }
    }
    let gone = before.iter().filter(|(name, ..)| find(&after, name).is_none());
    changes.extend(gone.map(|(name, ..)| format!("{name} removed")));
    changes
}

fn stamp(path: &Path) -> io::Result<Stamp> {
    let found = fs::metadata(path)?;
    Ok(Stamp(found.mtime(), found.mtime_nsec(), found.len(), found.ino()))
}
