/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_ERRNO_H
#define _KAPI_LINUX_ERRNO_H

#define EPERM       	1
#define ENOENT      	2
#define EIO         	5
#define ENXIO       	6
#define EAGAIN      	11
#define ENOMEM      	12
#define EFAULT      	14
#define EBUSY       	16
#define EEXIST      	17
#define ENODEV      	19
#define EINVAL      	22
#define ENOSPC      	28
#define ERANGE      	34
#define ENODATA     	61
#define ETIME       	62
#define EOVERFLOW   	75
#define EOPNOTSUPP  	95
#define ETIMEDOUT   	110

#endif /* _KAPI_LINUX_ERRNO_H */
