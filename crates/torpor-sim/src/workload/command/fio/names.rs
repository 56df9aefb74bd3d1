// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Names of fio's options.

/// Simulated options, with their synonyms after `=`.
pub(super) const SIMULATED: &str = "name filename directory rw=readwrite bs=blocksize ioengine iodepth numjobs direct buffered thinktime \
     rate rate_iops cpus_allowed runtime=timeout time_based size io_size=io_limit number_ios \
     startdelay stonewall=wait_for_previous rwmixread rwmixwrite fsync=fdatasync";

/// Options about how fio runs, measures and prints.
pub(super) const WITHOUT_MEANING: &str = "group_reporting new_group output output-format output_format minimal eta eta-newline \
     status-interval status_interval thread fork randrepeat allrandrepeat randseed norandommap \
     softrandommap random_generator invalidate refill_buffers scramble_buffers buffer_pattern \
     buffer_compress_percentage zero_buffers gtod_reduce gtod_cpu clocksource disable_lat \
     disable_clat disable_slat disable_bw disable_bw_measurement lat_percentiles clat_percentiles \
     slat_percentiles percentile_list write_bw_log write_lat_log write_iops_log write_hist_log \
     log_avg_msec log_hist_msec per_job_logs unified_rw_reporting exitall exitall_on_error \
     continue_on_error description create_on_open create_serialize overwrite fallocate \
     nrfiles openfiles unlink offset offset_increment end_fsync fsync_on_close mem iomem \
     iomem_align hugepage-size registerfiles fixedbufs loops disk_util stats significant_figures \
     uid gid allow_mounted_write allow_file_create filesize file_service_type percentage_random";

/// Options that change a run and are not simulated.
pub(super) const NOT_SIMULATED: &str = "ramp_time thinktime_spin thinktime_blocks thinktime_blocks_type iodepth_batch \
     iodepth_batch_submit iodepth_batch_complete iodepth_batch_complete_min \
     iodepth_batch_complete_max iodepth_low hipri sqthread_poll sqthread_poll_cpu nonvectored \
     uncached sync prio prioclass nice cpumask cpus_allowed_policy numa_cpu_nodes numa_mem_policy \
     rate_min rate_iops_min rate_process rate_cycle rate_ignore_thinktime latency_target \
     latency_window latency_percentile flow bssplit bsrange blocksize_range ba blockalign \
     bs_unaligned random_distribution zonemode verify do_verify serialize_overlap io_submit_mode \
     cgroup cgroup_weight userspace_reap nowait write_barrier sync_file_range rw_sequencer";

/// Returns the first of the synonyms.
pub(super) fn first(names: &'static str) -> &'static str {
    names.split('=').next().unwrap_or(names)
}
