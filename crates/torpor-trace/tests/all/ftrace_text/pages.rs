// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Pages of systrace, which hold ftrace text.

use super::*;

#[test]
fn page_text_is_read_not_json() {
    let page = format!(
        "<!DOCTYPE html>\n<html><script>var x = 1;</script>\n\
         <script class=\"trace-data\" type=\"application/text\">\n# tracer: nop\n{IDLE}</script>\n\
         <script class=\"trace-data\" type=\"application/text\">\n{{\"traceEvents\": []}}\n\
         </script></html>"
    );
    for page in [page.clone(), page.replace('\n', "\r\n")] {
        let trace = read(&page);
        assert_eq!((trace.events.len(), trace.losses.len()), (1, 0));
        assert_eq!(trace.meta.format, "systrace");
    }
}

/// The viewer's script creates such elements.
#[test]
fn the_viewers_scripts_are_no_trace() {
    let viewer = "<script>\nvar tag = '<script class=\"trace-data\" type=\"text\">';\n\
                  document.write(tag + '<\\/script>');\nfunction f() { return 1; }\n</script>";
    let data = format!("<script class=\"trace-data\">\n# tracer: nop\n{IDLE}</script>");
    for page in [
        format!("<!DOCTYPE html>\n{viewer}\n{data}</html>"),
        format!("<!DOCTYPE html>\n{data}\n{viewer}</html>"),
    ] {
        let trace = read(&page);
        assert_eq!((trace.events.len(), &trace.losses[..]), (1, &[][..]), "{page}");
    }
}

/// systrace adds the output of `ps`, in an element of its own or with the events.
#[test]
fn process_lists_are_no_lost_lines() {
    let ps = "PROCESS DUMP\nUSER   PID   PPID  VSZ  RSS WCHAN  PC S NAME   COMM\n\
              root     1      0 1234  567 0       0 S init   init\n\n\
              USER   PID   TID  CMD\nroot    62     62 kworker/0:1\n";
    let own = format!(
        "<html><script class=\"trace-data\">\n{ps}</script>\n\
         <script class=\"trace-data\">\n# tracer: nop\n{IDLE}</script></html>"
    );
    let shared = format!("<html><script class=\"trace-data\">\n{IDLE}{ps}</script></html>");
    let before = format!("<html><script class=\"trace-data\">\n{ps}{IDLE}</script></html>");
    for page in [own, shared, before] {
        let trace = read(&page);
        assert_eq!((trace.events.len(), &trace.losses[..]), (1, &[][..]), "{page}");
    }
    let text = read(&format!("{IDLE}{ps}{IDLE}what is this\n"));
    assert_eq!((text.events.len(), loss(&text, "text_lines_not_understood")), (2, 1));
}

/// trappy's pages have plain newlines, and no closing quote.
#[test]
fn the_string_of_an_old_page_is_read() {
    let lines = ["# tracer: nop", IDLE.trim_end(), IDLE.trim_end()].join("\\n\\\n");
    let escaped =
        format!("<!DOCTYPE html>\n<script>\n  var linuxPerfData = \"\\\n{lines}\\n\";\n</script>");
    let plain = format!(
        "<!DOCTYPE html>\n<body>\n  <script>\n  var linuxPerfData = \"\\\n\
         # tracer: nop\n#\n{IDLE}{IDLE}  </script>\n</body>\n</html>\n"
    );
    for page in [&escaped, &plain] {
        for page in [page.clone(), page.replace('\n', "\r\n")] {
            let trace = read(&page);
            assert_eq!((trace.events.len(), losses(&trace)), (2, Vec::new()), "{page}");
        }
    }
}

#[test]
fn page_without_trace_is_refused() {
    let error = read_bytes("t", b"<html><body>hello</body></html>").unwrap_err().to_string();
    assert!(error.contains("as systrace") && error.contains("hint: "), "{error}");
}

#[test]
fn a_cut_page_is_reported() {
    let page = format!("<html><script class=\"trace-data\">\n{IDLE}");
    let trace = read(&page);
    assert_eq!((trace.events.len(), loss(&trace, "truncated_file")), (1, 1));
}
