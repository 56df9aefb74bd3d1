// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * feed IMAGE GOVERNOR LOG: asks a governor's userspace image again what a kernel's log says its
 * module was asked, in the same order and with the same inputs, and compares the answers.
 *
 * Compiled against the kapi, like the image itself; what it uses of the C library is declared
 * here. Exits with 0 if all answers are equal, 1 if one differs, 2 where it cannot tell.
 */
#include <linux/cpuidle.h>
#include <linux/pm_qos.h>
#include <torpor/context.h>

#include "record.h"

/* A field of the host's here. */
#undef nr_cpu_ids

/* As kapi/image.c has it. */
struct torpor_image {
	u32 abi, hz, kapi_cpu_size, kapi_host_size, device_size, driver_size, param_size, reserved;
	struct kapi_host *host;
	const void *params_start, *params_end;
	int (*init)(void);
	int (*fire_timer)(void);
};

#define RTLD_NOW	2

void *dlopen(const char *path, int how);
void *dlsym(void *image, const char *name);
void *fopen(const char *path, const char *mode);
unsigned long fread(void *to, unsigned long size, unsigned long count, void *file);
int printf(const char *format, ...);
int strcmp(const char *a, const char *b);
void exit(int status);

/* CPUs that a log can be of. */
#define CPUS_MAX	64
/* Differences that are shown. */
#define SHOWN_MAX	5

static const struct torpor_image *image;
static struct cpuidle_governor *governor;
static struct kapi_cpu cpu;
static struct kapi_cpu *cpu_by_id[CPUS_MAX];
static struct cpuidle_device dev;
static struct cpuidle_driver drv;

static bool is_current, is_first;
static unsigned long decisions, limited, unsteady, timers, differences;

static void give_up(const char *why, const char *what)
{
	printf("cannot tell: %s %s\n", why, what);
	exit(2);
}

static void start(const struct torpor_record *record, const char *name)
{
	is_current = !strcmp(record->entry.name, name);
	drv.state_count = record->state;
}

static void add_state(const struct torpor_record *record)
{
	struct cpuidle_state *state = &drv.states[record->state];

	state->flags = record->entry.flags;
	state->exit_latency_ns = record->entry.exit_latency_ns;
	state->target_residency_ns = record->entry.target_residency_ns;
	state->exit_latency = state->exit_latency_ns / 1000;
	state->target_residency = state->target_residency_ns / 1000;
	if (record->state < drv.state_count - 1)
		return;
	cpu.nr_timers = 0;
	is_first = true;
	if (governor->enable && governor->enable(&drv, &dev))
		give_up("enable() refuses", governor->name);
}

/* Output of the core since the last call, and inputs that the governor may read. */
static void tell(const struct torpor_record *record)
{
	const struct torpor_call *call = &record->call;

	dev.last_residency_ns = call->last_residency_ns;
	dev.poll_time_limit = call->poll_time_limit;
	dev.poll_limit_ns = call->poll_limit_ns;
	cpu.now_ns = call->asked & BIT(TORPOR_LOCAL_CLOCK) ? call->input[TORPOR_LOCAL_CLOCK] :
							     (s64)record->time_ns;
	cpu.sleep_length_ns = call->input[TORPOR_SLEEP_LENGTH];
	cpu.delta_next_ns = call->input[TORPOR_DELTA_NEXT];
	cpu.tick_stopped = call->input[TORPOR_TICK_STOPPED];
	cpu.got_tick = call->input[TORPOR_GOT_TICK];
	cpu.latency_req_ns = call->input[TORPOR_LATENCY_REQ];
	cpu.nr_iowait = call->input[TORPOR_NR_IOWAIT];
	cpu.util = call->input[TORPOR_UTIL];
	cpu.load_avg = call->input[TORPOR_UTIL];
	cpu.capacity = call->input[TORPOR_CAPACITY];
	cpu.asked_sleep_length = false;
}

static void decide(const struct torpor_record *record)
{
	bool asked = record->call.asked & BIT(TORPOR_SLEEP_LENGTH);
	bool stop_tick = true, stopped = record->flags & TORPOR_STOP_TICK;
	int last_state_idx, state;

	tell(record);
	for (int i = 0; i < drv.state_count; i++)
		dev.states_usage[i].disable = !!(record->call.disabled & BIT(i));
	/* A value that another governor left behind is an input; later ones are this governor's own. */
	if (is_first)
		dev.last_state_idx = record->call.last_state_idx;
	is_first = false;
	last_state_idx = dev.last_state_idx;

	state = governor->select(&drv, &dev, &stop_tick);
	decisions++;
	limited += record->call.asked & BIT(TORPOR_LATENCY_REQ) &&
		   cpu.latency_req_ns < PM_QOS_CPU_LATENCY_DEFAULT_VALUE * NSEC_PER_USEC;
	unsteady += !!(record->flags & TORPOR_UNSTEADY);
	if (state == record->state && stop_tick == stopped && cpu.asked_sleep_length == asked &&
	    last_state_idx == record->call.last_state_idx)
		return;
	if (differences++ < SHOWN_MAX)
		printf("%lu: kernel state %d stop_tick %d asked %d last %d, here %d %d %d %d%s\n",
		       decisions, record->state, stopped, asked, record->call.last_state_idx,
		       state, stop_tick, cpu.asked_sleep_length, last_state_idx,
		       record->flags & TORPOR_UNSTEADY ? " (unsteady)" : "");
}

static void ring(void)
{
	timers++;
	/* Due, however the image's clock and the kernel's differ. */
	cpu.now_ns = S64_MAX;
	if (!image->fire_timer())
		differences++;
}

static void feed(const struct torpor_record *record, const char *name)
{
	if (record->kind == TORPOR_ENABLE)
		start(record, name);
	if (!is_current)
		return;
	switch (record->kind) {
	case TORPOR_STATE:
		add_state(record);
		break;
	case TORPOR_SELECT:
		decide(record);
		break;
	case TORPOR_REFLECT:
		tell(record);
		governor->reflect(&dev, record->state);
		break;
	case TORPOR_TIMER:
		ring();
		break;
	}
}

int main(int argc, char **argv)
{
	struct torpor_record record;
	void *loaded, *log;

	if (argc != 4)
		give_up("usage:", "feed IMAGE GOVERNOR LOG");
	loaded = dlopen(argv[1], RTLD_NOW);
	image = loaded ? dlsym(loaded, "torpor_image") : NULL;
	if (!image || image->abi != TORPOR_IMAGE_ABI || image->kapi_cpu_size != sizeof(cpu))
		give_up("no image:", argv[1]);
	log = fopen(argv[3], "r");
	if (!log || fread(&record, sizeof(record), 1, log) != 1 || record.kind != TORPOR_HEADER ||
	    record.header.version != TORPOR_LOG_VERSION ||
	    record.header.record_bytes != sizeof(record) || record.cpu >= CPUS_MAX)
		give_up("no log of decisions:", argv[3]);
	if (record.header.hz != image->hz)
		give_up("the log's tick rate is not that of", argv[1]);

	dev.cpu = record.cpu;
	cpu.cpu_id = record.cpu;
	cpu_by_id[record.cpu] = &cpu;
	image->host->cpu = &cpu;
	image->host->cpu_by_id = cpu_by_id;
	image->host->nr_cpu_ids = CPUS_MAX;
	if (image->init() || !image->host->nr_governors)
		give_up("it does not offer itself:", argv[1]);
	governor = image->host->governors[0];

	while (fread(&record, sizeof(record), 1, log) == 1)
		feed(&record, argv[2]);
	printf("decisions %lu limited %lu differences %lu unsteady %lu timers %lu\n", decisions,
	       limited, differences, unsteady, timers);
	return differences > 0;
}
