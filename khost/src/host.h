/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Declarations that the host's files share. */
#ifndef KHOST_HOST_H
#define KHOST_HOST_H

#include <linux/types.h>
#include <linux/cpumask.h>
#include <khost.h>
#include <generated/khost-names.h>

struct css_set;
struct device;
struct kobject;
struct task_struct;

/* As on x86-64 and arm64. */
#define KHOST_STACK_SIZE (16UL << 10)

/* context.c */
extern struct khost_cpu khost_cpus[NR_CPUS];
extern unsigned long long khost_touched[NR_CPUS / 64];
extern unsigned int __num_possible_cpus;
void khost_act_for(int cpu);
void khost_set_first_task(int cpu, struct task_struct *task);
bool khost_is_thread(int cpu);
void khost_give_stack(struct task_struct *task, int (*body)(void *), void *argument);
void khost_wait_for_interrupt(void);
void khost_resume_thread(void);
void khost_end_call(void) __noreturn;
int khost_call(unsigned long cpu, void (*body)(void *), void *argument);
int khost_call_on_stack(unsigned long cpu, int (*body)(void *), void *argument);
void khost_resume_or_serve(void *unused);

static inline void khost_touch(int cpu)
{
	khost_touched[cpu / 64] |= 1ULL << (cpu % 64);
}

/* cpu.c */

/* Callbacks that files of the kernel have registered, in the order of their states. */
struct khost_step {
	int state;
	int (*startup)(unsigned int cpu);
	int (*teardown)(unsigned int cpu);
};

const struct khost_step *khost_steps(int *count);
void khost_prepare_cpu(unsigned int cpu, struct task_struct *idle);
bool khost_owes_call(int cpu);
bool khost_sees_work(int cpu);
void khost_serve_call(void);
void khost_give_idle_tasks(void);

/* memory.c */
void *khost_alloc(unsigned long size);
void *khost_alloc_pages(unsigned long size);
void *khost_alloc_stack(void);
void khost_free(const void *memory);
void khost_setup_percpu(unsigned int cpus);
void *khost_alloc_percpu(size_t size, size_t align);

/* print.c */
extern bool khost_is_dead;
void khost_trouble(enum khost_trouble kind, const char *fmt, ...) __noreturn __printf(2, 3);

/* task.c */
unsigned int khost_number(struct task_struct *task);
void khost_traced_task(enum khost_traced kind, unsigned int task, unsigned int target);
void khost_init_task(void);
struct task_struct *khost_new_thread(int (*body)(void *), void *argument, const char *name);
int khost_task_new(const struct khost_task_setup *setup, void **task);
int khost_block(void *unused, unsigned long cpu);
int khost_block_io(void *unused, unsigned long cpu);
int khost_sleep(void *until_ns, unsigned long cpu);
int khost_yield(void *unused, unsigned long cpu);
int khost_exit(void *unused, unsigned long cpu);
int khost_wake(void *task, unsigned long cpu);
int khost_wake_sync(void *task, unsigned long cpu);
int khost_change(const struct khost_change *change, unsigned long cpu);
int khost_change_task(void *change);
int khost_completes(void *task, unsigned long cpu);
void khost_wake_completed(int cpu);
struct task_struct *khost_fork_idle(int cpu);
void khost_exit_current(void) __noreturn;

/* clock.c */
extern u64 khost_now_ns;
u64 khost_local_ns(void);
void khost_register_clock(void);
void khost_start_clock_event(int cpu);
void khost_clock_event(int cpu);

/* ioboost.c */
void khost_check_io_boost(void);

/* scheduler.c, bpf.c */
struct khost_bpf_map;
void khost_start_scheduler(void);
void khost_keep_task(struct task_struct *task);
struct task_struct *khost_task_of_pid(int pid);
void khost_init_scheduler_entity(struct task_struct *task);
void khost_free_scheduler_entity(struct task_struct *task);
void khost_make_maps(struct khost_bpf_map *maps, unsigned int count);
void khost_free_task_storage(struct task_struct *task);

/* work.c */
void khost_start_workers(void);

/* group.c */
void khost_init_groups(void);
void khost_make_groups(void);
struct css_set *khost_group(unsigned int number);
void khost_group_join(struct task_struct *task, struct css_set *set);
void khost_group_leave(struct task_struct *task);
int khost_group_stat(void *text, unsigned long number);

/* params.c */
void khost_parse_command_line(void);
void khost_parse_for_initcalls(void);
void khost_set_param(const char *name, const char *value);
const char *khost_known_argument(unsigned long index);

/* hotplug.c */
void khost_add_online_files(void);

/* files.c */
extern unsigned int khost_files_generation;
void khost_register_file(const char *path, int (*store)(void *data, const char *text, size_t len),
			 void *data);
void khost_add_device(struct device *device, struct kobject *parent, const char *name);
void khost_write_settings(void);
int khost_serve_writes(void);
int khost_list_files(void *unused, unsigned long cpu);
int khost_write(void *unused, unsigned long cpu);
int khost_shell_cpu(void *cpu, unsigned long unused);

/* sysctl.c */
void khost_set_sysctl_values(void);

/* drivers/cpuidle/cpuidle.h, which no hosted file outside of it includes */
int cpuidle_disabled(void);

/* idle.c, freq.c, topology.c */
void khost_start_idle_driver(void);
void khost_report_idle_limits(void);
int khost_idle_usage(void *usage, unsigned long cpu);
void khost_start_freq_driver(void);
void khost_hide_iowait(void);
void khost_setup_topology(void);
void khost_keep_masks(void);
void khost_add_cpus(void);

/* boot.c */
extern const struct khost_host *khost_host;
extern const struct khost_machine *khost_machine;
const struct khost_cluster *khost_cluster_of(unsigned int cpu);
void khost_cpus_of(const struct khost_cluster *cluster, struct cpumask *cpus);

#endif
