// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Writes `trace.dat` in the forms of trace-cmd, for any word size and byte order.
#![allow(dead_code)] // Test programs use different parts.

use std::io::Write;

/// The recorded machine.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    pub is_big_endian: bool,
    pub long_bytes: usize,
    pub page_bytes: usize,
}

pub const X86_64: Machine = Machine { is_big_endian: false, long_bytes: 8, page_bytes: 4096 };

impl Machine {
    pub fn number(self, bytes: usize, value: u64) -> Vec<u8> {
        if self.is_big_endian {
            value.to_be_bytes()[8 - bytes..].to_vec()
        } else {
            value.to_le_bytes()[..bytes].to_vec()
        }
    }

    pub fn u16(self, value: u64) -> Vec<u8> {
        self.number(2, value)
    }

    pub fn u32(self, value: u64) -> Vec<u8> {
        self.number(4, value)
    }

    pub fn u64(self, value: u64) -> Vec<u8> {
        self.number(8, value)
    }

    pub fn long(self, value: u64) -> Vec<u8> {
        self.number(self.long_bytes, value)
    }

    /// Returns an event: `common_type`, flags, preempt count, pid, and its own fields.
    pub fn event(self, id: u16, fields: &[Vec<u8>]) -> Vec<u8> {
        [&self.u16(id.into())[..], &[0, 0], &self.u32(0), &fields.concat()].concat()
    }

    pub fn header_page(self) -> String {
        let long = self.long_bytes;
        let data = 8 + long;
        let size = self.page_bytes - data;
        format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
             \tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\
             \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
             \tfield: char data;\toffset:{data};\tsize:{size};\tsigned:1;\n"
        )
    }
}

/// Returns a `format` file. Fields are (declaration, size, signed), after the common ones.
pub fn format(name: &str, id: u16, fields: &[(&str, usize, bool)]) -> String {
    let mut text = format!("name: {name}\nID: {id}\nformat:\n");
    let common = [
        ("unsigned short common_type", 2, false),
        ("unsigned char common_flags", 1, false),
        ("unsigned char common_preempt_count", 1, false),
        ("int common_pid", 4, true),
    ];
    let mut offset = 0;
    for (declaration, size, is_signed) in common.iter().chain(fields) {
        let signed = u8::from(*is_signed);
        text +=
            &format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n");
        offset += size;
    }
    text + "\nprint fmt: \"\"\n"
}

/// One page of a ring buffer.
#[derive(Clone, Debug)]
pub struct Page {
    machine: Machine,
    start: u64,
    time: u64,
    data: Vec<u8>,
    /// Events missed before this page: none, an unknown number, or a known one.
    pub missed: Option<Option<u64>>,
}

impl Page {
    pub fn new(machine: Machine, time: u64) -> Page {
        Page { machine, start: time, time, data: Vec::new(), missed: None }
    }

    fn word(&mut self, kind: u32, time: u64) {
        let time = time as u32 & ((1 << 27) - 1);
        let word = if self.machine.is_big_endian { kind << 27 | time } else { time << 5 | kind };
        self.data.extend(self.machine.u32(word.into()));
    }

    /// Adds an event, with a time extension if the time since the last one exceeds 27 bits.
    pub fn event(mut self, time: u64, event: &[u8]) -> Page {
        let mut delta = time - self.time;
        if delta >> 27 != 0 {
            self.word(30, delta);
            self.data.extend(self.machine.u32(delta >> 27));
            delta = 0;
        }
        self.time = time;
        let padded = event.len().next_multiple_of(4);
        if padded <= 28 * 4 {
            self.word(padded as u32 / 4, delta);
        } else {
            self.word(0, delta);
            self.data.extend(self.machine.u32(event.len() as u64 + 4));
        }
        self.data.extend(event);
        self.data.resize(self.data.len() + padded - event.len(), 0);
        self
    }

    /// Adds the lower 59 bits of an absolute time.
    pub fn stamp(mut self, time: u64) -> Page {
        self.word(31, time);
        self.data.extend(self.machine.u32(time >> 27 & u64::from(u32::MAX)));
        self.time = time;
        self
    }

    /// Adds a discarded event of this many bytes.
    pub fn discarded(mut self, time: u64, bytes: usize) -> Page {
        self.word(29, time - self.time);
        self.data.extend(self.machine.u32(bytes as u64 + 4));
        self.data.resize(self.data.len() + bytes, 0xff);
        self.time = time;
        self
    }

    /// Ends the page with padding and garbage.
    pub fn ended(mut self) -> Page {
        self.word(29, 0);
        self.data.extend([0xff; 12]);
        self
    }

    pub fn has_room(&self, bytes: usize) -> bool {
        8 + self.machine.long_bytes + self.data.len() + bytes + 32 <= self.machine.page_bytes
    }

    fn bytes(&self) -> Vec<u8> {
        let machine = self.machine;
        let missed = self.missed.map_or(0, |count| 1 << 31 | u64::from(count.is_some()) << 30);
        let mut page = machine.u64(self.start);
        page.extend(machine.long(self.data.len() as u64 | missed));
        page.extend(&self.data);
        page.extend(self.missed.flatten().map_or(Vec::new(), |count| machine.long(count)));
        assert!(page.len() <= machine.page_bytes);
        page.resize(machine.page_bytes, 0);
        page
    }
}

/// A tracing instance: its name, its clock, and the pages of each CPU.
pub type Instance = (&'static str, &'static str, Vec<Vec<Page>>);

pub struct Dat {
    pub version: u8,
    /// `none`, `zlib` or `zstd`; version 6 is never compressed.
    pub compression: &'static str,
    pub machine: Machine,
    /// Formats, each of its own system.
    pub formats: Vec<String>,
    pub kallsyms: String,
    pub printk: String,
    pub options: Vec<(u16, Vec<u8>)>,
    pub instances: Vec<Instance>,
}

impl Dat {
    pub fn bytes(&self) -> Vec<u8> {
        if self.version == 6 { self.v6() } else { self.v7() }
    }

    fn preamble(&self) -> Vec<u8> {
        let machine = self.machine;
        let mut file = b"\x17\x08\x44tracing".to_vec();
        file.extend(format!("{}\0", self.version).bytes());
        file.extend([u8::from(machine.is_big_endian), machine.long_bytes as u8]);
        file.extend(machine.u32(machine.page_bytes as u64));
        file
    }

    fn sized(&self, text: &str) -> Vec<u8> {
        [&self.machine.u64(text.len() as u64)[..], text.as_bytes()].concat()
    }

    /// Returns the parts that describe events, in version 6's order, with version 7's numbers.
    fn parts(&self) -> [(u16, Vec<u8>); 6] {
        let machine = self.machine;
        let headers = [
            b"header_page\0",
            &self.sized(&machine.header_page())[..],
            b"header_event\0",
            &self.sized("# compressed entry header\n"),
        ];
        let mut systems = machine.u32(self.formats.len() as u64);
        for text in &self.formats {
            systems.extend(b"a_system\0");
            systems.extend(machine.u32(1));
            systems.extend(self.sized(text));
        }
        let print = format("print", 5, &[("unsigned long ip", machine.long_bytes, false)]);
        let at = 8 + machine.long_bytes;
        let print = print.replace(
            "\nprint fmt",
            &format!("\tfield:char buf[];\toffset:{at};\tsize:0;\tsigned:0;\n\nprint fmt"),
        );
        let short = |text: &str| [&machine.u32(text.len() as u64)[..], text.as_bytes()].concat();
        [
            (16, headers.concat()),
            (17, [machine.u32(1), self.sized(&print)].concat()),
            (18, systems),
            (19, short(&self.kallsyms)),
            (20, short(&self.printk)),
            (21, self.sized("1 init\n")),
        ]
    }

    fn cpu_count(&self) -> usize {
        self.instances[0].2.len()
    }

    fn v6(&self) -> Vec<u8> {
        let machine = self.machine;
        let mut file = self.preamble();
        file.extend(self.parts().into_iter().flat_map(|(_, part)| part));
        file.extend(machine.u32(self.cpu_count() as u64));
        let mut at_instances = Vec::new();
        file.extend(b"options  \0");
        let clock = (4, Vec::new());
        for (id, data) in self.options.iter().chain([&clock]) {
            file.extend([machine.u16((*id).into()), machine.u32(data.len() as u64)].concat());
            file.extend(data);
        }
        for (name, ..) in &self.instances[1..] {
            file.extend([machine.u16(3), machine.u32(name.len() as u64 + 9)].concat());
            at_instances.push(file.len());
            file.extend([&machine.u64(0)[..], name.as_bytes(), b"\0"].concat());
        }
        file.extend(machine.u16(0));
        for (index, (_, clock, cpus)) in self.instances.iter().enumerate() {
            if index > 0 {
                let here = machine.u64(file.len() as u64);
                file[at_instances[index - 1]..][..8].copy_from_slice(&here);
            }
            file.extend(b"flyrecord\0");
            let table = file.len();
            file.resize(table + 16 * cpus.len(), 0);
            if index == 0 {
                file.extend(self.sized(&format!("global [{clock}] uptime")));
            }
            for (cpu, pages) in cpus.iter().enumerate() {
                file.resize(file.len().next_multiple_of(machine.page_bytes), 0);
                let start = file.len();
                file.extend(pages.iter().flat_map(Page::bytes));
                let size = file.len() - start;
                let entry = [machine.u64(start as u64), machine.u64(size as u64)].concat();
                file[table + 16 * cpu..][..16].copy_from_slice(&entry);
            }
        }
        file
    }

    /// Returns packed size, unpacked size and packed bytes.
    fn block(&self, bytes: &[u8]) -> Vec<u8> {
        let packed = match self.compression {
            "zstd" => zstd::encode_all(bytes, 1).expect("memory is writable"),
            _ => {
                let level = flate2::Compression::default();
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(bytes).expect("memory is writable");
                encoder.finish().expect("memory is writable")
            }
        };
        let sizes = [packed.len(), bytes.len()].map(|size| self.machine.u32(size as u64));
        [sizes.concat(), packed].concat()
    }

    fn section(&self, id: u16, body: &[u8]) -> Vec<u8> {
        let machine = self.machine;
        let is_packed = self.compression != "none" && id != 0 && id != 15;
        let body = if is_packed { self.block(body) } else { body.to_vec() };
        let head = [machine.u16(id.into()), machine.u16(is_packed.into()), machine.u32(0)];
        [head.concat(), machine.u64(body.len() as u64), body].concat()
    }

    fn v7(&self) -> Vec<u8> {
        let machine = self.machine;
        let mut file = self.preamble();
        file.extend(format!("{}\x001.0\0", self.compression).bytes());
        let first_options = file.len();
        file.extend(machine.u64(0));
        let option = |id: u16, data: &[u8]| {
            [&machine.u16(id.into())[..], &machine.u32(data.len() as u64), data].concat()
        };
        let mut options = Vec::new();
        for (id, part) in self.parts() {
            options.extend(option(id, &machine.u64(file.len() as u64)));
            let section = self.section(id, &part);
            file.extend(section);
        }
        for (id, data) in &self.options {
            options.extend(option(*id, data));
        }
        let here = machine.u64(file.len() as u64);
        file[first_options..][..8].copy_from_slice(&here);
        // The second options follow their buffers; this option's data is last.
        options.extend(option(0, &machine.u64(0)));
        let section = self.section(0, &options);
        file.extend(section);
        let to_second = file.len() - 8;
        let mut options = Vec::new();
        for (name, clock, cpus) in &self.instances {
            let is_packed = self.compression != "none";
            let mut data = machine.u64(file.len() as u64);
            data.extend(format!("{name}\0{clock}\0").bytes());
            data.extend(machine.u32(machine.page_bytes as u64));
            data.extend(machine.u32(cpus.len() as u64));
            let head = [machine.u16(3), machine.u16(is_packed.into()), machine.u32(0)];
            file.extend([head.concat(), machine.u64(0)].concat());
            for (cpu, pages) in cpus.iter().enumerate() {
                file.resize(file.len().next_multiple_of(machine.page_bytes), 0);
                let start = file.len();
                // Two pages per chunk, for several chunks.
                let chunks: Vec<Vec<u8>> = pages
                    .chunks(2)
                    .map(|chunk| chunk.iter().flat_map(Page::bytes).collect())
                    .collect();
                if is_packed {
                    file.extend(machine.u32(chunks.len() as u64));
                    file.extend(chunks.iter().flat_map(|chunk| self.block(chunk)));
                } else {
                    file.extend(chunks.concat());
                }
                let size = file.len() - start - if is_packed { 4 } else { 0 };
                data.extend(machine.u32(cpu as u64));
                data.extend([machine.u64(start as u64), machine.u64(size as u64)].concat());
            }
            options.extend(option(3, &data));
        }
        options.extend(option(0, &machine.u64(0)));
        let here = machine.u64(file.len() as u64);
        file[to_second..][..8].copy_from_slice(&here);
        let section = self.section(0, &options);
        file.extend(section);
        file
    }
}
