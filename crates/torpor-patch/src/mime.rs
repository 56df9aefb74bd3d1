// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Headers and decoded texts of one mail.
//!
//! `mail-parser` reads headers and decodes. Parts are told apart here, with limits: its own message
//! parser nests without one.

use crate::error::Fault;
use crate::limits;
use mail_parser::decoders::base64::base64_decode;
use mail_parser::decoders::charsets::map::charset_decoder;
use mail_parser::decoders::quoted_printable::quoted_printable_decode;
use mail_parser::{ContentType, HeaderName, HeaderValue, Message, MessageParser, MimeHeaders};
use std::sync::LazyLock;

static HEADERS: LazyLock<MessageParser> = LazyLock::new(|| {
    MessageParser::new()
        .with_mime_headers()
        .header_text(HeaderName::Subject)
        .header_address(HeaderName::From)
        .header_date(HeaderName::Date)
        .header_id(HeaderName::MessageId)
        .header_id(HeaderName::InReplyTo)
        .header_id(HeaderName::References)
        .default_header_ignore()
});

/// Header fields of a mail, decoded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields {
    pub(crate) subject: Option<String>,
    /// `Name <address>`.
    pub(crate) author: Option<String>,
    /// RFC 3339.
    pub(crate) date: Option<String>,
    /// Seconds since 1970; 0 without a date.
    pub(crate) time_s: i64,
    /// Without angle brackets.
    pub(crate) message_id: Option<String>,
    /// The mails that it answers.
    pub(crate) references: Vec<String>,
}

/// The readable parts of a mail.
#[derive(Debug, Clone, Default)]
pub(crate) struct Body {
    pub(crate) text: Vec<u8>,
    /// The text as it was sent, if it is said to be `format=flowed`: not all that say so are.
    pub(crate) as_sent: Option<Vec<u8>>,
    /// Patches that are attached: name, content.
    pub(crate) attached: Vec<(String, Vec<u8>)>,
}

/// Reads one mail. A text without a mail's header is all body.
pub(crate) fn read(mail: &[u8]) -> Result<(Fields, Body), Fault> {
    let (header, body) = split_header(mail);
    if !has_mail_field(header) {
        return Ok((
            Fields::default(),
            Body { text: unix_lines(mail.to_vec()), ..Body::default() },
        ));
    }
    let mut parts = Parts::default();
    let fields = with_header(header, |message| {
        parts.add(message, body, 0)?;
        Ok(message.map(fields).unwrap_or_default())
    })?;
    Ok((fields, parts.body))
}

/// Splits before the first line that is neither a field nor its continuation; a blank one is cut.
fn split_header(mail: &[u8]) -> (&[u8], &[u8]) {
    let mut at = 0;
    for line in mail.split_inclusive(|&byte| byte == b'\n') {
        let bare = line.trim_ascii_end();
        if bare.is_empty() && at > 0 {
            return (&mail[..at], &mail[at + line.len()..]);
        }
        let is_continuation = line.starts_with(b" ") || line.starts_with(b"\t");
        let is_escaped_separator = at == 0 && line.starts_with(b">From ");
        if !(bare.is_empty() || is_continuation || is_escaped_separator || is_field(line)) {
            return (&mail[..at], &mail[at..]);
        }
        at += line.len();
    }
    (mail, b"")
}

/// `Name: ...`, except the `Index:` of quilt and Subversion.
fn is_field(line: &[u8]) -> bool {
    let length = line.iter().take_while(|&&byte| byte.is_ascii_graphic() && byte != b':').count();
    length > 0 && line.get(length) == Some(&b':') && &line[..length] != b"Index"
}

fn has_mail_field(header: &[u8]) -> bool {
    const FIELDS: [&[u8]; 8] = [
        b"subject:",
        b"from:",
        b"date:",
        b"message-id:",
        b"received:",
        b"return-path:",
        b"mime-version:",
        b"content-type:",
    ];
    header.split(|&byte| byte == b'\n').any(|line| {
        let is = |field: &&[u8]| {
            line.get(..field.len()).is_some_and(|start| start.eq_ignore_ascii_case(field))
        };
        FIELDS.iter().any(is)
    })
}

/// Parses a header. None: it has no field.
fn with_header<T>(header: &[u8], read: impl FnOnce(Option<&Message<'_>>) -> T) -> T {
    // A field ends at the line that follows it.
    let header = [header, b"\n\n"].concat();
    read(HEADERS.parse_headers(&header).as_ref())
}

fn fields(message: &Message<'_>) -> Fields {
    let date = message.date().filter(|date| date.is_valid());
    let author = message.from().and_then(|from| from.first()).map(|from| {
        match (from.name(), from.address()) {
            (Some(name), Some(address)) => format!("{name} <{address}>"),
            (name, address) => name.or(address).unwrap_or_default().to_owned(),
        }
    });
    let mut references = ids(message.references());
    references.extend(ids(message.in_reply_to()));
    Fields {
        subject: message.subject().map(str::to_owned),
        author,
        date: date.map(mail_parser::DateTime::to_rfc3339),
        time_s: date.map_or(0, mail_parser::DateTime::to_timestamp),
        message_id: message.message_id().map(str::to_owned),
        references,
    }
}

fn ids(value: &HeaderValue<'_>) -> Vec<String> {
    match value {
        HeaderValue::Text(id) => vec![id.to_string()],
        HeaderValue::TextList(ids) => ids.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}

/// Collects the parts of a mail.
#[derive(Default)]
struct Parts {
    body: Body,
    part_count: usize,
}

impl Parts {
    fn add(
        &mut self,
        message: Option<&Message<'_>>,
        body: &[u8],
        depth: usize,
    ) -> Result<(), Fault> {
        self.part_count += 1;
        if self.part_count > limits::MIME_PARTS {
            return Err(Fault::TooMany { unit: "MIME parts", max: limits::MIME_PARTS });
        }
        let content = message.and_then(|message| message.content_type());
        let kind = content.map_or("text", |content| content.ctype()).to_ascii_lowercase();
        let subtype = content.and_then(|content| content.subtype()).unwrap_or("plain");
        let subtype = subtype.to_ascii_lowercase();
        let boundary = content.and_then(|content| content.attribute("boundary"));
        if let Some(boundary) = boundary.filter(|_| kind == "multipart") {
            if depth == limits::MIME_DEPTH {
                let max = limits::MIME_DEPTH;
                return Err(Fault::TooMany { unit: "levels of MIME parts", max });
            }
            for part in parts_between(body, boundary.as_bytes()) {
                let (header, body) = split_part(part);
                with_header(header, |message| self.add(message, body, depth + 1))?;
            }
            return Ok(());
        }
        let name = message.and_then(|message| message.attachment_name()).unwrap_or_default();
        let is_attached = message
            .and_then(|message| message.content_disposition())
            .is_some_and(|disposition| disposition.is_attachment());
        let is_diff = ["x-patch", "x-diff"].contains(&subtype.as_str())
            || [".patch", ".diff"].iter().any(|end| name.to_ascii_lowercase().ends_with(end));
        if is_diff && depth > 0 && (is_attached || !name.is_empty() || subtype != "plain") {
            let name = if name.is_empty() { "attachment" } else { name };
            let content = unix_lines(decoded(message, content, body)?);
            self.body.attached.push((name.to_owned(), content));
        } else if kind == "text" && (subtype == "plain" || is_diff) && !is_attached {
            self.add_text(content, decoded(message, content, body)?);
        }
        Ok(())
    }

    fn add_text(&mut self, content: Option<&ContentType<'_>>, text: Vec<u8>) {
        let text = unix_lines(text);
        let has = |name, value: &str| {
            let content = content.and_then(|content| content.attribute(name));
            content.is_some_and(|content| content.eq_ignore_ascii_case(value))
        };
        let is_flowed = has("format", "flowed");
        if is_flowed && self.body.as_sent.is_none() {
            self.body.as_sent = Some(self.body.text.clone());
        }
        if let Some(as_sent) = &mut self.body.as_sent {
            append(as_sent, &text);
        }
        match is_flowed {
            true => append(&mut self.body.text, &unflowed(&text, has("delsp", "yes"))),
            false => append(&mut self.body.text, &text),
        }
    }
}

/// Appends whole lines.
fn append(text: &mut Vec<u8>, more: &[u8]) {
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    text.extend_from_slice(more);
}

/// A part may have no header, and then begins with a blank line.
fn split_part(part: &[u8]) -> (&[u8], &[u8]) {
    match part.strip_prefix(b"\n").or(part.strip_prefix(b"\r\n")) {
        Some(body) => (b"", body),
        None => split_header(part),
    }
}

/// Returns the parts between lines of `--boundary`, up to one of `--boundary--`.
fn parts_between<'a>(body: &'a [u8], boundary: &[u8]) -> Vec<&'a [u8]> {
    let (mut parts, mut start, mut at) = (Vec::new(), None, 0);
    for line in body.split_inclusive(|&byte| byte == b'\n') {
        let after = line.strip_prefix(b"--").and_then(|line| line.strip_prefix(boundary));
        if let Some(after) = after.map(<[u8]>::trim_ascii_end) {
            if after.is_empty() || after == b"--" {
                parts.extend(start.map(|start| without_last_line_end(&body[start..at])));
                start = after.is_empty().then_some(at + line.len());
            }
        }
        at += line.len();
    }
    parts.extend(start.map(|start| &body[start..]));
    parts
}

/// The line end before a boundary is the boundary's.
fn without_last_line_end(part: &[u8]) -> &[u8] {
    let part = part.strip_suffix(b"\n").unwrap_or(part);
    part.strip_suffix(b"\r").unwrap_or(part)
}

fn decoded(
    message: Option<&Message<'_>>,
    content: Option<&ContentType<'_>>,
    body: &[u8],
) -> Result<Vec<u8>, Fault> {
    let encoding = message.and_then(|message| message.content_transfer_encoding());
    let bytes = match encoding.unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "base64" => {
            let bytes = base64_decode(without_footer(body));
            bytes.ok_or(Fault::Encoding("base64"))?
        }
        "quoted-printable" => {
            quoted_printable_decode(body).ok_or(Fault::Encoding("quoted-printable"))?
        }
        _ => body.to_vec(),
    };
    Ok(in_utf8(content, bytes))
}

/// Converts another character set to the kernel's own, UTF-8, whose bytes are kept as they are.
fn in_utf8(content: Option<&ContentType<'_>>, bytes: Vec<u8>) -> Vec<u8> {
    let charset = content.and_then(|content| content.attribute("charset")).unwrap_or("utf-8");
    if bytes.is_ascii() || ["utf-8", "us-ascii"].iter().any(|c| charset.eq_ignore_ascii_case(c)) {
        return bytes;
    }
    match charset_decoder(charset.as_bytes()) {
        Some(decode) => decode(&bytes).into_bytes(),
        None => bytes,
    }
}

/// Cuts the plain text that mailing lists append to a mail in base64, behind its end.
fn without_footer(body: &[u8]) -> &[u8] {
    let mut at = 0;
    for line in body.split_inclusive(|&byte| byte == b'\n') {
        let bare = line.trim_ascii();
        if bare.is_empty() && at > 0 {
            break;
        }
        at += line.len();
        if bare.ends_with(b"=") {
            break;
        }
    }
    &body[..at]
}

/// Replaces CR LF where it is the mail's line end; a file's own CR stays.
fn unix_lines(text: Vec<u8>) -> Vec<u8> {
    let ends = text.iter().filter(|&&byte| byte == b'\n').count();
    let pairs = text.windows(2).filter(|pair| pair == b"\r\n").count();
    if pairs == 0 || pairs * 2 < ends {
        return text;
    }
    let mut unix = Vec::with_capacity(text.len() - pairs);
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        match line.strip_suffix(b"\r\n") {
            Some(line) => unix.extend_from_slice(&[line, b"\n"].concat()),
            None => unix.extend_from_slice(line),
        }
    }
    unix
}

/// Undoes `format=flowed` (RFC 3676) in text that is not quoted.
fn unflowed(text: &[u8], deletes_space: bool) -> Vec<u8> {
    let mut whole = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_prefix(b" ").unwrap_or(line);
        if line.ends_with(b" ") && line != b"-- " && !line.starts_with(b">") {
            let keep = line.len() - usize::from(deletes_space);
            whole.extend_from_slice(&line[..keep]);
        } else {
            whole.extend_from_slice(line);
            whole.push(b'\n');
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flowed_lines_are_joined() {
        assert_eq!(unflowed(b"  x\nlong \nline\n-- \n>q \n", false), b" x\nlong line\n-- \n>q \n");
        assert_eq!(unflowed(b"lo \nng\n", true), b"long\n");
    }

    #[test]
    fn a_files_own_cr_stays() {
        assert_eq!(unix_lines(b"a\r\nb\r\n".to_vec()), b"a\nb\n");
        assert_eq!(unix_lines(b"a\nb\nc\nd\r\n".to_vec()), b"a\nb\nc\nd\r\n");
    }

    #[test]
    fn parts_end_at_their_own_boundary() {
        let body = b"intro\n--b\n\none\n--bb\n--b\n\ntwo\n--b--\nend\n";
        assert_eq!(parts_between(body, b"b"), [b"\none\n--bb".as_slice(), b"\ntwo"]);
    }
}
