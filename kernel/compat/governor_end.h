/* SPDX-License-Identifier: GPL-2.0-only */
/* Epilogue of a governor's file that is built as a module: its init and exit. */
static int __init torpor_start(void)
{
	int ret = torpor_find_needs(TORPOR_NAME, TORPOR_NEEDS);

	if (ret)
		return ret;
	ret = torpor_start_own ? torpor_start_own() : -EINVAL;
	if (ret && torpor_governor)
		torpor_unregister_governor(torpor_governor);
	if (ret)
		return ret;
	if (!torpor_governor) {
		pr_info("%s: the governor does not offer itself on this machine\n", KBUILD_MODNAME);
		return -ENODEV;
	}
	if (!torpor_can_unregister()) {
		pr_info("%s: stays loaded: this kernel has no other governor, or lists no data symbols\n",
			KBUILD_MODNAME);
		__module_get(THIS_MODULE);
	}
	if (TORPOR_HAS_TIMERS)
		torpor_timers_file = torpor_show_timers(TORPOR_NAME, &torpor_timers);
	return 0;
}

static void __exit torpor_end(void)
{
	torpor_unregister_governor(torpor_governor);
	debugfs_remove(torpor_timers_file);
	if (torpor_end_own)
		torpor_end_own();
}

MODULE_VERSION(TORPOR_VERSION);
